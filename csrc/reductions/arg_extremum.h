#pragma once

#include "reductions/extremum.h"

namespace gpureduce {

// An integer that compares as the value does: NaN above everything, the two zeros equal.
template <class T>
constexpr auto order_key(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    using Key = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    constexpr Key kMax = std::numeric_limits<Key>::max();
    const Key bits = std::bit_cast<Key>(x == 0 ? T(0) : x);
    return is_nan(x) ? kMax : static_cast<Key>(bits < 0 ? bits ^ kMax : bits);
  } else if constexpr (sizeof(T) == 8) {
    return std::is_signed_v<T> ? static_cast<int64_t>(x) : static_cast<int64_t>(x ^ (uint64_t{1} << 63));
  } else {
    return std::is_signed_v<T> ? static_cast<int32_t>(x) : static_cast<int32_t>(x ^ (uint32_t{1} << 31));
  }
}

// The value that has this key; of the zeros the positive one.
template <class T, class Key>
constexpr T value_of_key(Key key) {
  if constexpr (std::is_floating_point_v<T>) {
    constexpr Key kMax = std::numeric_limits<Key>::max();
    return std::bit_cast<T>(static_cast<Key>(key < 0 ? key ^ kMax : key));  // the NaN's key has a NaN's bits
  } else if constexpr (std::is_signed_v<T>) {
    return key;
  } else {
    return static_cast<T>(key) ^ (T{1} << (8 * sizeof(T) - 1));
  }
}

// `first ? a : b`. A CPU's compiler makes a branch of that, which is guessed wrong as often as values surprise.
template <class Integer>
constexpr Integer choose(bool first, Integer a, Integer b) {
#ifdef __CUDA_ARCH__
  return first ? a : b;
#else
  return b ^ ((a ^ b) & -static_cast<Integer>(first));
#endif
}

template <class Key>
struct KeyAt {
  Key key;
  int64_t index;
};

// The extreme value and where it stands first. The value comes back from the key, so that a lane holds no more for it.
template <class Element, Extreme kExtreme>
struct ArgExtremum {
  static constexpr bool kMeaningful = !is_complex<Element>;
  static constexpr bool kConverts = false;
  static constexpr bool kOrdered = false;
  static constexpr bool kIndexed = true;
  static constexpr Extreme kSide = kExtreme;
  using Input = Comparable<Element>;
  using Key = std::conditional_t<sizeof(Input) <= 4, int32_t, int64_t>;
  using Value = KeyAt<Key>;

  // The value whose key is the larger, the further out it is.
  static constexpr Key key_of(Input x) {
    if constexpr (kExtreme == Extreme::kLargest) return order_key(x);
    if constexpr (std::is_floating_point_v<Input>) return order_key(-x);  // a NaN stays one, and stays above
    return ~order_key(x);
  }
  static constexpr Input value_of(Key key) {
    if constexpr (kExtreme == Extreme::kLargest) return value_of_key<Input>(key);
    if constexpr (std::is_floating_point_v<Input>) return 0 - value_of_key<Input>(key);  // the zero stays positive
    return value_of_key<Input>(static_cast<Key>(~key));
  }

  // The index is past every other, so that a row of nothing but the weakest value still answers its first element.
  static constexpr Value identity() { return {std::numeric_limits<Key>::min(), std::numeric_limits<int64_t>::max()}; }
  static constexpr Element neutral() { return weakest_element<kExtreme, Element>(); }
  static constexpr Value take(Value best, Input x, int64_t index) { return merge(best, {key_of(x), index}); }
  // For an element that stands behind all that were taken: of equals the first one stays.
  static constexpr Value take_in_turn(Value best, Input x, int64_t index) {
    const Key key = key_of(x);
    const bool first = (key <= best.key) & (best.index != std::numeric_limits<int64_t>::max());
    return {choose(first, best.key, key), choose(first, best.index, index)};
  }
  static constexpr Value merge(Value a, Value b) {
    const bool first = (a.key > b.key) | ((a.key == b.key) & (a.index < b.index));
    return {choose(first, a.key, b.key), choose(first, a.index, b.index)};
  }
  static constexpr std::tuple<Input, int64_t> finish(Value best, const FinishArguments&) {
    return {value_of(best.key), best.index};
  }
};

template <class Element>
struct Argmax : ArgExtremum<Element, Extreme::kLargest> {
  static constexpr bool kCommon = true;
};
template <class Element>
struct Argmin : ArgExtremum<Element, Extreme::kSmallest> {};

}  // namespace gpureduce
