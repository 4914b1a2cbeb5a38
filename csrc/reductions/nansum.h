#pragma once

#include "reductions/sum.h"

namespace gpureduce {

template <class T>
constexpr bool has_nan(T x) {
  if constexpr (is_complex<T>) {
    return x.re != x.re || x.im != x.im;
  } else {
    return x != x;
  }
}

// Elements that are NaN count as 0, which changes no lane: a lane begins with +0 and is never -0. Integers have no NaN;
// their sums are Sum's.
template <class Element>
struct Nansum : Sum<Element> {
  using typename Sum<Element>::Value;
  static constexpr bool kMeaningful = Sum<Element>::kOrdered;
  static constexpr bool kCommon = false;

  static constexpr Value take(Value sum, Value x, int64_t) {
    return Sum<Element>::merge(sum, has_nan(x) ? Value(0) : x);
  }
};

// The count is kept in the accumulator's type and combined as the sum is: exact up to 2^24 (float32) or 2^53 elements,
// and beyond that no coarser than the sum. So a lane holds two words, and the mean of equal elements is that element.
template <class Element>
struct Nanmean {
  static constexpr bool kMeaningful = Nansum<Element>::kMeaningful;
  static constexpr bool kConverts = true;
  static constexpr bool kOrdered = true;
  using Input = Accumulator<Element>;
  using Count = RealOf<Input>;
  struct Value {
    Input sum;
    Count count;
  };

  static constexpr Value identity() { return {Input(0), Count(0)}; }
  static constexpr auto neutral() { return as_element<Element>(Input(std::numeric_limits<Count>::quiet_NaN())); }
  static constexpr Value take(Value so_far, Input x, int64_t) {
    return merge(so_far, has_nan(x) ? identity() : Value{x, Count(1)});
  }
  static constexpr Value merge(Value a, Value b) { return {a.sum + b.sum, a.count + b.count}; }
  static constexpr Input finish(Value all, const FinishArguments&) {
    if constexpr (is_complex<Input>) {
      return {all.sum.re / all.count, all.sum.im / all.count};
    } else {
      return all.sum / all.count;
    }
  }
};

}  // namespace gpureduce
