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

// The least value that an Element can hold.
template <class Element>
constexpr Element lowest_element() {
  if constexpr (std::is_same_v<Element, Half>) return {0xfc00};
  if constexpr (std::is_same_v<Element, BFloat16>) return {0xff80};
  if constexpr (std::is_same_v<Element, Float8E4M3>) return {0xfe};
  if constexpr (std::is_same_v<Element, Float8E5M2>) return {0xfc};
  if constexpr (std::is_same_v<Element, Bool>) return {0};
  if constexpr (std::is_arithmetic_v<Element>) return lowest<Element>();
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
    // Without a branch, on the bits: equal values differ in the sign of a zero at most.
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    const Bits of_a = std::bit_cast<Bits>(a), of_b = std::bit_cast<Bits>(b);
    const Bits winner = a > b || is_nan(a) ? of_a : of_b;
    return std::bit_cast<T>(a == b ? of_a & of_b : winner);
  } else {
    return a > b ? a : b;
  }
}

}  // namespace gpureduce
