// How order-free reductions keep a lane while elements stream by: in fewer bits than the result has, where they fit.
#pragma once

#include <limits>

#include "core/dtype.h"
#include "reductions/arg_extremum.h"
#include "reductions/sum.h"

namespace gpureduce::cpu {

// The general form: the lane is the reduction's own value. A specialisation offers the same, and may hold the elements
// of `kMaxRounds` rounds only before it is widened.
template <class Reduction, class Source>
struct PackedLane {
  using Value = typename Reduction::Value;
  static constexpr int64_t kMaxRounds = std::numeric_limits<int64_t>::max();

  static constexpr Value identity() { return Reduction::identity(); }
  static constexpr Value take(Value value, Source x, int64_t index, NoFocus) {
    return Reduction::take(value, convert<typename Reduction::Input>(x), index);
  }
  static constexpr Value merge(Value a, Value b) { return Reduction::merge(a, b); }
  static constexpr Value widen(Value value) { return value; }
};

// ---- sums of integers

template <class Element, class Narrow>
struct NarrowSum {
  using Value = Narrow;
  // A lane gains at most the size of the element's lowest or highest value in a round.
  static constexpr int64_t kLargest =
      std::is_same_v<Element, Bool> ? 1 : int64_t{1} << (8 * sizeof(Element) - std::is_signed_v<Element>);
  static constexpr int64_t kMaxRounds = std::numeric_limits<Narrow>::max() / kLargest;

  static constexpr Value identity() { return 0; }
  static constexpr Value take(Value sum, Element x, int64_t, NoFocus) {
    if constexpr (std::is_same_v<Element, Bool>)
      return static_cast<Value>(sum + (x.bits != 0));
    else
      return static_cast<Value>(sum + x);
  }
  static constexpr Value merge(Value a, Value b) { return static_cast<Value>(a + b); }
  static constexpr int64_t widen(Value sum) { return sum; }
};

template <>
struct PackedLane<Sum<Bool>, Bool> : NarrowSum<Bool, uint8_t> {};
template <>
struct PackedLane<Sum<int8_t>, int8_t> : NarrowSum<int8_t, int16_t> {};
template <>
struct PackedLane<Sum<uint8_t>, uint8_t> : NarrowSum<uint8_t, uint16_t> {};
template <>
struct PackedLane<Sum<int16_t>, int16_t> : NarrowSum<int16_t, int32_t> {};
template <>
struct PackedLane<Sum<uint16_t>, uint16_t> : NarrowSum<uint16_t, uint32_t> {};

// ---- maxima

// An integer as wide as the element that compares as the value does, and the way back. Small floats are compared by
// their bits: NaN above everything, +0 above -0.
template <class Element>
struct NarrowKey {
  using Key = std::conditional_t<sizeof(Element) == 1, int8_t, int16_t>;
  static constexpr Key kFlip = std::numeric_limits<Key>::max();

  static constexpr Key of(Element x) {
    if constexpr (std::is_same_v<Element, Bool>) {
      return x.bits != 0;
    } else if constexpr (is_small_float<Element>) {
      const auto bits = static_cast<Key>(x.bits);
      const auto magnitude = static_cast<Key>(bits & kFlip);
      const auto ordered = static_cast<Key>(bits < 0 ? bits ^ kFlip : bits);
      return magnitude > kInfinity ? kFlip : ordered;
    } else {
      return static_cast<Key>(std::is_signed_v<Element> ? x : x ^ std::numeric_limits<Key>::min());
    }
  }
  static constexpr Comparable<Element> value(Key key) {
    if constexpr (std::is_same_v<Element, Bool>) {
      return key;
    } else if constexpr (is_small_float<Element>) {
      return to_float(Element{static_cast<decltype(Element::bits)>(key < 0 ? key ^ kFlip : key)});
    } else {
      return static_cast<Element>(std::is_signed_v<Element> ? key : key ^ std::numeric_limits<Key>::min());
    }
  }

 private:
  // The largest magnitude, as bits, that is not NaN.
  static constexpr Key kInfinity = std::is_same_v<Element, Half>         ? 0x7c00
                                   : std::is_same_v<Element, BFloat16>   ? 0x7f80
                                   : std::is_same_v<Element, Float8E5M2> ? 0x7c
                                                                         : 0x7e;
};

template <class Element>
inline constexpr bool has_narrow_key =
    is_small_float<Element> || std::is_same_v<Element, Bool> || (std::is_integral_v<Element> && sizeof(Element) <= 2);

template <class Element>
  requires has_narrow_key<Element>
struct PackedLane<Amax<Element>, Element> {
  using Value = typename NarrowKey<Element>::Key;
  static constexpr int64_t kMaxRounds = std::numeric_limits<int64_t>::max();

  static constexpr Value identity() { return std::numeric_limits<Value>::min(); }
  static constexpr Value take(Value best, Element x, int64_t, NoFocus) {
    return merge(best, NarrowKey<Element>::of(x));
  }
  static constexpr Value merge(Value a, Value b) { return b > a ? b : a; }
  static constexpr auto widen(Value best) { return NarrowKey<Element>::value(best); }
};

// ---- positions

// The key of an element, which may be narrower than the reduction's, and the reduction's for it.
template <class Reduction, class Source>
struct KeyLane {
  using Key = decltype(Reduction::Value::key);
  static constexpr int64_t kMaxRounds = std::numeric_limits<Key>::max();

  // What is merged into the identity is taken as it is.
  static constexpr Key key(Source x) {
    return Reduction::take(Reduction::identity(), convert<typename Reduction::Input>(x), 0).key;
  }
  static constexpr Key widen(Key key) { return key; }
};

template <class Element>
  requires has_narrow_key<Element>
struct KeyLane<Argmax<Element>, Element> {
  using Key = typename NarrowKey<Element>::Key;
  static constexpr int64_t kMaxRounds = std::numeric_limits<Key>::max();

  static constexpr Key key(Element x) {
    // The two zeros are equal.
    if constexpr (is_small_float<Element>) x.bits = (x.bits & NarrowKey<Element>::kFlip) == 0 ? 0 : x.bits;
    return NarrowKey<Element>::of(x);
  }
  static constexpr auto widen(Key key) { return Argmax<Element>::key_of(NarrowKey<Element>::value(key)); }
};

}  // namespace gpureduce::cpu
