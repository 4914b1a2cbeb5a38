#pragma once

#include "reductions/extremum.h"

namespace gpureduce {

template <class Value>
struct ValueAt {
  Value value;
  int64_t index;
};

template <class Element>
struct Argmax {
  static constexpr bool kMeaningful = !is_complex<Element>;
  static constexpr bool kConverts = false;
  static constexpr bool kOrdered = false;
  using Input = Comparable<Element>;
  using Value = ValueAt<Input>;

  // The index is past every other, so that a row of nothing but the lowest value still answers its first element.
  static constexpr Value identity() { return {lowest<Input>(), std::numeric_limits<int64_t>::max()}; }
  static constexpr Value take(Value best, Input x, int64_t index) { return merge(best, {x, index}); }
  static constexpr Value merge(Value a, Value b) {
    if (beats(a.value, b.value)) return a;
    if (beats(b.value, a.value)) return b;
    return a.index < b.index ? a : b;
  }
  static constexpr int64_t finish(Value best, double) { return best.index; }
};

}  // namespace gpureduce
