// Norms: the reductions behind the orders that have one of their own (ops/kernel.h picks).
#pragma once

#include "reductions/magnitude.h"
#include "reductions/scaled_sum.h"
#include "reductions/square_scales.h"

namespace gpureduce {

// Norms are of floating point and complex numbers; `dtype=` may only widen, and what widens within float32 is read as
// it is (sums_as_is in core/dtype.h), which leaves these to be converted.
template <class Element>
inline constexpr bool has_norm = !std::is_integral_v<Element> && !std::is_same_v<Element, Bool>;
template <class Acc>
inline constexpr bool has_norm<Converted<Acc>> = std::is_same_v<RealOf<Acc>, double>;

// Order 1: the sum of |x|.
template <class Element>
struct AbsSum {
  static constexpr bool kMeaningful = has_norm<Element>;
  static constexpr bool kConverts = true;
  static constexpr bool kOrdered = true;
  using Input = Accumulator<Element>;
  using Value = RealOf<Input>;

  static constexpr Value identity() { return 0; }
  static constexpr auto neutral() { return as_element<Element>(Input(0)); }
  static constexpr Value take(Value sum, Input x, int64_t) { return merge(sum, magnitude(x)); }
  static constexpr Value merge(Value a, Value b) { return a + b; }
  static constexpr Value finish(Value sum, const FinishArguments&) { return sum; }
};

// Orders inf and -inf: both ends of |x|.
template <class Element>
struct AbsMinmax {
  static constexpr bool kMeaningful = has_norm<Element>;
  static constexpr bool kConverts = true;
  static constexpr bool kOrdered = false;
  using Input = Accumulator<Element>;
  using Real = RealOf<Input>;
  struct Value {
    Real smallest, largest;
  };

  static constexpr Value identity() { return {weakest<Extreme::kSmallest, Real>(), Real(0)}; }
  static constexpr Value take(Value ends, Input x, int64_t) {
    const Real size = magnitude(x);
    return merge(ends, {size, size});
  }
  static constexpr Value merge(Value a, Value b) {
    return {winner<Extreme::kSmallest>(a.smallest, b.smallest), winner<Extreme::kLargest>(a.largest, b.largest)};
  }
  static constexpr Real finish(Value ends, const FinishArguments& arguments) {
    return arguments.parameter > 0 ? ends.largest : ends.smallest;
  }
};

// Order 2: the root of the sum of squares. A leaf's value in float64 holds all squares of float32; those of float64 are
// kept with their exponent.
template <class Element>
struct SquareSum {
  static constexpr bool kMeaningful = has_norm<Element>;
  static constexpr bool kConverts = true;
  static constexpr bool kOrdered = true;
  static constexpr bool kCommon = true;
  using Input = Accumulator<Element>;
  using Value = RealOf<Input>;
  using Part = std::conditional_t<std::is_same_v<Value, float>, double, ScaledSum>;
  using Scales = SquareScales<Value>;
  static constexpr bool kScaled = squares_leave_range<Element>;

  struct Focus {
    Value scale;
  };

  static constexpr Value identity() { return 0; }
  static constexpr auto neutral() { return as_element<Element>(Input(0)); }
  static constexpr Focus focus(const std::array<Input, 1>&, const FinishArguments&) {
    return {kScaled ? Scales::kUsual : 1};
  }
  static constexpr Value take(Value sum, Input x, int64_t, const Focus& focus) {
    if constexpr (is_complex<Input>) {
      const Input z = x * focus.scale;
      return merge(sum, z.re * z.re + z.im * z.im);
    } else {
      const Value scaled = kScaled ? x * focus.scale : x;
      return merge(sum, scaled * scaled);
    }
  }
  static constexpr Value merge(Value a, Value b) { return a + b; }
  static constexpr bool refocus(Focus& focus, Value sum, int64_t count, const FinishArguments&) {
    if (!kScaled || focus.scale != Scales::kUsual) return false;
    const bool is_large = !(sum <= Scales::kLarge);  // or NaN
    const bool is_small = sum < static_cast<Value>(count) * Scales::kSmall;
    if (is_large) focus.scale = Scales::kDown;
    if (is_small) focus.scale = Scales::kUp;
    return is_large || is_small;
  }

  static constexpr Part part_identity() {
    if constexpr (std::is_same_v<Value, float>) {
      return 0;
    } else {
      return {0, ScaledSum::kFarBelow};  // the exponent of a sum that is there counts
    }
  }
  static constexpr Part part(Value sum, const Focus& focus, int64_t, const FinishArguments&) {
    if constexpr (std::is_same_v<Value, float>) {
      const double back = kScaled ? unscaled(focus.scale) : 1;
      return sum * back * back;
    } else {
      return {sum, focus.scale == Scales::kUsual ? 0 : focus.scale == Scales::kUp ? -1200.0 : 1200.0};
    }
  }
  static constexpr auto merge(const Part& a, const Part& b)
    requires(!std::is_same_v<Part, Value>)
  {
    return a + b;
  }
  static constexpr Value finish(const Part& part, const FinishArguments&) {
    if constexpr (std::is_same_v<Value, float>) {
      return static_cast<float>(square_root(part));
    } else {
      return square_root(part.sum) * (part.exponent == 0 ? 1 : part.exponent < 0 ? 0x1p-600 : 0x1p600);
    }
  }
};

}  // namespace gpureduce
