// What the reductions that choose an element have in common: which of two values wins.
#pragma once

#include <limits>

#include "reductions/reduction.h"

namespace gpureduce {

enum class Extreme : uint8_t { kLargest, kSmallest };

template <class T>
constexpr bool is_nan(T x) {
  return x != x;  // false for integers
}

// The number that wins over no other.
template <Extreme kExtreme, class T>
constexpr T weakest() {
  constexpr bool largest = kExtreme == Extreme::kLargest;
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) return largest ? -Limits::infinity() : Limits::infinity();
  return largest ? Limits::lowest() : Limits::max();
}

// The element that wins over no other.
template <Extreme kExtreme, class Element>
constexpr Element weakest_element() {
  constexpr bool largest = kExtreme == Extreme::kLargest;
  if constexpr (std::is_same_v<Element, Half>) return {uint16_t{largest ? 0xfc00 : 0x7c00}};
  if constexpr (std::is_same_v<Element, BFloat16>) return {uint16_t{largest ? 0xff80 : 0x7f80}};
  if constexpr (std::is_same_v<Element, Float8E4M3>) return {uint8_t{largest ? 0xfe : 0x7e}};
  if constexpr (std::is_same_v<Element, Float8E5M2>) return {uint8_t{largest ? 0xfc : 0x7c}};
  if constexpr (std::is_same_v<Element, Bool>) return {uint8_t{largest ? 0 : 1}};
  if constexpr (std::is_arithmetic_v<Element>) return weakest<kExtreme, Element>();
}

template <Extreme kExtreme, class T>
constexpr bool is_beyond(T a, T b) {
  return kExtreme == Extreme::kLargest ? a > b : a < b;
}

// The one that wins, NaN over everything. Of two zeros the positive one is the larger, of two NaNs it is a NaN: the
// same value whichever comes first.
template <Extreme kExtreme, class T>
constexpr T winner(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
#ifdef __CUDA_ARCH__
    if constexpr (std::is_same_v<T, float>) {  // one instruction with just these rules
      float result;
      if constexpr (kExtreme == Extreme::kLargest) {
        asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
      } else {
        asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
      }
      return result;
    }
#endif
    // Each of the two selections is one instruction that answers its last operand when a and b are equal or one is NaN.
    // What both agree on is the winner, and of two zeros the right one. All bits set are a NaN.
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    const Bits one = std::bit_cast<Bits>(is_beyond<kExtreme>(a, b) ? a : b);
    const Bits other = std::bit_cast<Bits>(is_beyond<kExtreme>(b, a) ? b : a);
    const Bits agreed = kExtreme == Extreme::kLargest ? one & other : one | other;
    const bool either_nan = is_nan(a) | is_nan(b);
    return std::bit_cast<T>(agreed | -static_cast<Bits>(either_nan));
  } else {
    return is_beyond<kExtreme>(a, b) ? a : b;
  }
}

template <class Element, Extreme kExtreme>
struct Extremum {
  static constexpr bool kMeaningful = !is_complex<Element>;
  static constexpr bool kConverts = false;
  static constexpr bool kOrdered = false;
  using Value = Comparable<Element>;
  using Input = Value;

  static constexpr Value identity() { return weakest<kExtreme, Value>(); }
  static constexpr Element neutral() { return weakest_element<kExtreme, Element>(); }
  static constexpr Value take(Value best, Input x, int64_t) { return merge(best, x); }
  static constexpr Value merge(Value a, Value b) { return winner<kExtreme>(a, b); }
  static constexpr Value finish(Value best, const FinishArguments&) { return best; }
};

template <class Element>
struct Amax : Extremum<Element, Extreme::kLargest> {
  static constexpr bool kCommon = true;
};
template <class Element>
struct Amin : Extremum<Element, Extreme::kSmallest> {};

// Both at once, of one reading.
template <class Element>
struct Aminmax {
  static constexpr bool kMeaningful = !is_complex<Element>;
  static constexpr bool kConverts = false;
  static constexpr bool kOrdered = false;
  using Input = Comparable<Element>;
  struct Value {
    Input smallest, largest;
  };

  static constexpr Value identity() { return {Amin<Element>::identity(), Amax<Element>::identity()}; }
  static constexpr Value take(Value ends, Input x, int64_t) { return merge(ends, {x, x}); }
  static constexpr Value merge(Value a, Value b) {
    return {Amin<Element>::merge(a.smallest, b.smallest), Amax<Element>::merge(a.largest, b.largest)};
  }
  static constexpr std::tuple<Input, Input> finish(Value ends, const FinishArguments&) {
    return {ends.smallest, ends.largest};
  }
};

}  // namespace gpureduce
