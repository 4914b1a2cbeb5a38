#pragma once

#include "reductions/extremum.h"

namespace gpureduce {

template <class Element>
struct Amax {
  static constexpr bool kMeaningful = !is_complex<Element>;
  static constexpr bool kConverts = false;
  static constexpr bool kOrdered = false;
  using Value = Comparable<Element>;
  using Input = Value;

  static constexpr Value identity() { return lowest<Value>(); }
  static constexpr Element neutral() { return lowest_element<Element>(); }
  static constexpr Value take(Value best, Input x, int64_t) { return merge(best, x); }
  static constexpr Value merge(Value a, Value b) { return larger(a, b); }
  static constexpr Value finish(Value best, double) { return best; }
};

}  // namespace gpureduce
