// Norms: the reductions behind the orders that have one of their own (ops/kernel.h picks).
#pragma once

#include "reductions/magnitude.h"

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

// Where squares of a type are out of range their sum is kept three times: as it is, of elements scaled down and of
// elements scaled up, all by powers of two, which are exact. docs/accuracy.md derives the numbers: for every norm that
// is representable one of the three neither overflows nor loses anything that matters.
template <class Real>
struct SquareScales {
  static constexpr Real kDown = 0x1p-64f, kUp = 0x1p88f;
  static constexpr Real kSmall = 0x1p-60f;  // a sum of squares below this takes the one that is scaled up
};
template <>
struct SquareScales<double> {
  static constexpr double kDown = 0x1p-512, kUp = 0x1p600;
  static constexpr double kSmall = 0x1p-900;
};

// Order 2: the root of the sum of squares.
template <class Element>
struct SquareSum {
  using Input = Accumulator<Element>;
  using Real = RealOf<Input>;
  struct Scaled {
    Real plain, down, up;
  };

  static constexpr bool kMeaningful = has_norm<Element>;
  static constexpr bool kConverts = true;
  static constexpr bool kOrdered = true;
  static constexpr bool kCommon = true;
  // The squares of float16 and float8, zero or from 2^-48 to 2^32, are all in range of float32, and so are their sums.
  static constexpr bool kWideLane = !is_small_float<Element> || std::is_same_v<Element, BFloat16>;
  using Value = std::conditional_t<kWideLane, Scaled, Real>;
  using Scales = SquareScales<Real>;

  static constexpr Value identity() { return Value{}; }
  static constexpr auto neutral() { return as_element<Element>(Input(0)); }
  static constexpr Value take(Value sum, Input x, int64_t) {
    if constexpr (kWideLane) {
      return merge(sum, {square(x, Real(1)), square(x, Scales::kDown), square(x, Scales::kUp)});
    } else {
      return sum + x * x;
    }
  }
  static constexpr Value merge(Value a, Value b) {
    if constexpr (kWideLane) {
      return {a.plain + b.plain, a.down + b.down, a.up + b.up};
    } else {
      return a + b;
    }
  }
  static constexpr Real finish(Value sum, const FinishArguments&) {
    if constexpr (kWideLane) {
      if (sum.plain == std::numeric_limits<Real>::infinity()) return square_root(sum.down) * (1 / Scales::kDown);
      if (sum.plain < Scales::kSmall) return square_root(sum.up) * (1 / Scales::kUp);
      return square_root(sum.plain);
    } else {
      return square_root(sum);
    }
  }

 private:
  static constexpr Real square(Input x, Real scale) {
    if constexpr (is_complex<Input>) {
      const Real re = x.re * scale, im = x.im * scale;
      return re * re + im * im;
    } else {
      return (x * scale) * (x * scale);
    }
  }
};

}  // namespace gpureduce
