// What one wants to know of activations and gradients, in one reading.
#pragma once

#include "reductions/arg_extremum.h"
#include "reductions/magnitude.h"
#include "reductions/moments.h"

namespace gpureduce {

// Both ends with their positions, and what is no finite number: the part that does not depend on the order.
template <class Element>
struct Marks {
  using Input = Accumulator<Element>;
  using Largest = Argmax<Element>;
  using Smallest = Argmin<Element>;
  static constexpr bool kOrdered = false;
  static constexpr bool kIndexed = true;

  struct Value {
    typename Largest::Value largest;
    typename Smallest::Value smallest;
    int64_t num_nan, num_inf;
  };

  static constexpr Value identity() { return {Largest::identity(), Smallest::identity(), 0, 0}; }
  static constexpr Value take(const Value& value, Input x, int64_t index) {
    return {Largest::take(value.largest, x, index), Smallest::take(value.smallest, x, index), value.num_nan + is_nan(x),
            value.num_inf + is_infinite(x)};
  }
  static constexpr Value merge(const Value& a, const Value& b) {
    return {Largest::merge(a.largest, b.largest), Smallest::merge(a.smallest, b.smallest), a.num_nan + b.num_nan,
            a.num_inf + b.num_inf};
  }
  static constexpr bool is_infinite(Input x) { return magnitude(x) == std::numeric_limits<Input>::infinity(); }
};

template <class Element>
struct Statistics {
  using Input = Accumulator<Element>;
  using OfLanes = Moments<Element>;
  using OfThread = Marks<Element>;
  using Focus = typename OfLanes::Focus;

  static constexpr bool kMeaningful = std::is_floating_point_v<Input> && !is_converted<Element>;
  static constexpr bool kConverts = false;
  static constexpr bool kOrdered = true;
  static constexpr bool kIndexed = true;
  static constexpr bool kWideLane = true;

  struct Value {
    typename OfLanes::Value moments;
    typename OfThread::Value marks;
  };
  struct Part {
    typename OfLanes::Part moments;
    typename OfThread::Value marks;
  };

  static constexpr Value identity() { return {OfLanes::identity(), OfThread::identity()}; }
  static constexpr int kSamples = OfLanes::kSamples;
  static constexpr Focus focus(const std::array<Input, kSamples>& samples, const FinishArguments& arguments) {
    return OfLanes::focus(samples, arguments);
  }
  static constexpr Value take(const Value& value, Input x, int64_t index, const Focus& focus) {
    return {OfLanes::take(value.moments, x, index, focus), OfThread::take(value.marks, x, index)};
  }
  static constexpr Value merge(const Value& a, const Value& b) {
    return {OfLanes::merge(a.moments, b.moments), OfThread::merge(a.marks, b.marks)};
  }
  static constexpr bool refocus(Focus& focus, const Value& value, int64_t count, const FinishArguments& arguments) {
    return OfLanes::refocus(focus, value.moments, count, arguments);
  }

  static constexpr Part part_identity() { return {OfLanes::part_identity(), OfThread::identity()}; }
  static constexpr Part part(const Value& value, const Focus& focus, int64_t count, const FinishArguments& arguments) {
    return {OfLanes::part(value.moments, focus, count, arguments), value.marks};
  }
  static constexpr Part merge(const Part& a, const Part& b) {
    return {OfLanes::merge(a.moments, b.moments), OfThread::merge(a.marks, b.marks)};
  }

  // count, sum, mean, var, min, max, argmin, argmax, num_nan, num_inf.
  static constexpr std::tuple<int64_t, Input, Input, Input, Input, Input, int64_t, int64_t, int64_t, int64_t> finish(
      const Part& part, const FinishArguments& arguments) {
    const auto [variance, mean] = OfLanes::finish(part.moments, arguments);
    const auto [largest, largest_at] = Argmax<Element>::finish(part.marks.largest, arguments);
    const auto [smallest, smallest_at] = Argmin<Element>::finish(part.marks.smallest, arguments);
    const auto sum = static_cast<Input>(part.moments.mean * part.moments.count);
    return {arguments.num_elements, sum, mean, variance, smallest, largest, smallest_at, largest_at, part.marks.num_nan,
            part.marks.num_inf};
  }
};

}  // namespace gpureduce
