// What amax and argmax have in common: which of two values wins.
#pragma once

#include <limits>

#include "core/dtype.h"

namespace gpureduce {

template <class T>
constexpr bool is_nan(T x) {
  return x != x;  // false for integers
}

template <class T>
constexpr T lowest() {
  if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
  return std::numeric_limits<T>::lowest();
}

// NaN wins over everything; -0 and +0 are equal.
template <class T>
constexpr bool beats(T a, T b) {
  return a > b || (is_nan(a) && !is_nan(b));
}

// The one that beats the other. Of two zeros the positive one, of two NaNs a NaN: the same value whichever comes first.
template <class T>
constexpr T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
#ifdef __CUDA_ARCH__
    if constexpr (std::is_same_v<T, float>) {  // one instruction with just these rules
      float result;
      asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
      return result;
    }
#endif
    // Each of the two selections is one instruction that answers its last operand when a and b are equal or one is NaN:
    // the bits that both agree on are the larger value, and of two zeros the positive one. All bits set are a NaN.
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    const Bits agreed = std::bit_cast<Bits>(a > b ? a : b) & std::bit_cast<Bits>(b > a ? b : a);
    const bool either_nan = is_nan(a) | is_nan(b);
    return std::bit_cast<T>(agreed | -static_cast<Bits>(either_nan));
  } else {
    return a > b ? a : b;
  }
}

}  // namespace gpureduce
