// What one wants to know of activations and gradients, in one reading.
#pragma once

#include "reductions/arg_extremum.h"
#include "reductions/magnitude.h"
#include "reductions/moments.h"

namespace gpureduce {

template <class Element>
struct Statistics {
  using Input = Accumulator<Element>;
  using OfMoments = Moments<Element>;
  using Largest = Argmax<Element>;
  using Smallest = Argmin<Element>;
  using Focus = typename OfMoments::Focus;

  static constexpr bool kMeaningful = std::is_floating_point_v<Input> && !is_converted<Element>;
  static constexpr bool kConverts = false;
  static constexpr bool kOrdered = true;
  static constexpr bool kIndexed = true;
  static constexpr bool kWideLane = true;

  // All that does not depend on the order.
  struct Marks {
    typename Largest::Value largest;
    typename Smallest::Value smallest;
    int64_t num_nan, num_inf;
  };
  struct Value {
    typename OfMoments::Value moments;
    Marks marks;
  };
  struct Part {
    typename OfMoments::Part moments;
    Marks marks;
  };

  static constexpr Marks no_marks() { return {Largest::identity(), Smallest::identity(), 0, 0}; }
  static constexpr Marks mark(Marks marks, Input x, int64_t index) {
    return {Largest::take(marks.largest, x, index), Smallest::take(marks.smallest, x, index), marks.num_nan + (x != x),
            marks.num_inf + (magnitude(x) == std::numeric_limits<Input>::infinity())};
  }
  static constexpr Marks merge(const Marks& a, const Marks& b) {
    return {Largest::merge(a.largest, b.largest), Smallest::merge(a.smallest, b.smallest), a.num_nan + b.num_nan,
            a.num_inf + b.num_inf};
  }

  static constexpr Value identity() { return {OfMoments::identity(), no_marks()}; }
  static constexpr Focus focus(Input first, const FinishArguments& arguments) {
    return OfMoments::focus(first, arguments);
  }
  static constexpr Value take(const Value& value, Input x, int64_t index, const Focus& focus) {
    return {OfMoments::take(value.moments, x, index, focus), mark(value.marks, x, index)};
  }
  static constexpr Value merge(const Value& a, const Value& b) {
    return {OfMoments::merge(a.moments, b.moments), merge(a.marks, b.marks)};
  }
  static constexpr bool refocus(Focus& focus, const Value& value, int64_t count, const FinishArguments& arguments) {
    return OfMoments::refocus(focus, value.moments, count, arguments);
  }

  static constexpr Part part_identity() { return {OfMoments::part_identity(), no_marks()}; }
  static constexpr Part part(const Value& value, const Focus& focus, int64_t count) {
    return {OfMoments::part(value.moments, focus, count), value.marks};
  }
  static constexpr Part merge(const Part& a, const Part& b) {
    return {OfMoments::merge(a.moments, b.moments), merge(a.marks, b.marks)};
  }

  // count, sum, mean, var, min, max, argmin, argmax, num_nan, num_inf.
  static constexpr std::tuple<int64_t, Input, Input, Input, Input, Input, int64_t, int64_t, int64_t, int64_t> finish(
      const Part& part, const FinishArguments& arguments) {
    const auto [variance, mean] = OfMoments::finish(part.moments, arguments);
    const auto [largest, largest_at] = Largest::finish(part.marks.largest, arguments);
    const auto [smallest, smallest_at] = Smallest::finish(part.marks.smallest, arguments);
    const auto sum = static_cast<Input>(part.moments.mean * part.moments.count);
    return {arguments.num_elements, sum, mean, variance, smallest, largest, smallest_at, largest_at, part.marks.num_nan,
            part.marks.num_inf};
  }
};

}  // namespace gpureduce
