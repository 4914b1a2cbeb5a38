// Sums of powers of two: log-sum-exp, and norms of an order that has no shortcut.
#pragma once

#include "reductions/exponential.h"
#include "reductions/norm.h"

namespace gpureduce {

// What is summed is 2^(exponent of x), relative to a focus near the leaf's largest exponent; a leaf whose first element
// was no good guess at that is walked again around the largest one. Leaves and results are sum x 2^exponent in float64
// with an integral exponent, so that merging them rounds nothing but the sum.
//
// Terms offers
//   Focus, focus(first, FinishArguments)
//   exponent(x, focus)           of an element, relative to the focus
//   exponent(focus)              of the focus, in float64
//   keeps(focus, largest)        whether `largest`, relative to it, is near enough to the focus
//   moved(focus, largest)        a focus at `largest`
template <class Element, class Terms>
struct ExponentialSum {
  using Input = Accumulator<Element>;
  using Real = RealOf<Input>;
  using Focus = typename Terms::Focus;

  static constexpr bool kConverts = true;
  static constexpr bool kOrdered = true;
  static constexpr bool kWideLane = true;

  struct Value {
    Real sum, largest;
  };
  using Part = ScaledSum;

  static constexpr Value identity() { return {Real(0), -std::numeric_limits<Real>::infinity()}; }
  static constexpr Focus focus(Input first, const FinishArguments& arguments) { return Terms::focus(first, arguments); }
  static constexpr Value take(Value value, Input x, int64_t, const Focus& focus) {
    const Real exponent = Terms::exponent(x, focus);
    return merge(value, {exp2_of(exponent), exponent});
  }
  // A NaN is in the sum and never the largest.
  static constexpr Value merge(Value a, Value b) { return {a.sum + b.sum, larger_of(a.largest, b.largest)}; }
  static constexpr bool refocus(Focus& focus, Value value, int64_t, const FinishArguments&) {
    if (value.largest == -std::numeric_limits<Real>::infinity() || Terms::keeps(focus, value.largest)) return false;
    focus = Terms::moved(focus, value.largest);
    return true;
  }

  static constexpr Part part_identity() { return {0, ScaledSum::kFarBelow}; }
  static constexpr Part part(Value value, const Focus& focus, int64_t count) {
    if (count == 0) return part_identity();
    const double sum = value.sum;
    if (sum == std::numeric_limits<double>::infinity()) return {sum, ScaledSum::kFarAbove};
    const double exponent = Terms::exponent(focus), whole = nearest_integer(exponent);
    return {sum * exp2_of(exponent - whole), whole};
  }
  static constexpr Part merge(const Part& a, const Part& b) { return a + b; }

  // log2 of the result, for a sum that is positive and finite.
  static constexpr double log2_of_part(const Part& part) { return part.exponent + log2_of(part.sum); }
  static constexpr bool is_plain(const Part& part) {
    return part.sum > 0 && part.sum < std::numeric_limits<double>::infinity();
  }

 private:
  static constexpr double nearest_integer(double x) {
    constexpr double kRound = 0x1.8p52;
    return magnitude(x) < 0x1p51 ? (x + kRound) - kRound : x;
  }
};

// exp(x) = 2^(x log2 e), around a centre: distances of neighbours are exact.
template <class Element>
struct ExponentialTerms {
  using Real = Accumulator<Element>;
  static constexpr double kLog2E = 1.4426950408889634;
  static constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
  // Half the largest number: no distance from it overflows.
  static constexpr Real kFarthest = std::numeric_limits<Real>::max() / 2;

  struct Focus {
    Real centre;
  };
  static constexpr Focus focus(Real first, const FinishArguments&) { return {first - first == 0 ? first : Real(0)}; }
  static constexpr Real exponent(Real x, const Focus& focus) { return (x - focus.centre) * static_cast<Real>(kLog2E); }
  static constexpr double exponent(const Focus& focus) { return static_cast<double>(focus.centre) * kLog2E; }

  // An exponent is rounded to its last place, which is an error of as much in the logarithm: it is to stay below that
  // of the result's own rounding. Results of 16 bits and less only need it in range.
  static constexpr bool keeps(const Focus& focus, Real largest) {
    if (largest == kInfinity) return focus.centre == kFarthest;  // +inf is among the elements, or it overflowed
    constexpr Real kLeast = -40, kMost = 100, kNear = is_small_float<Element> ? kMost : 8;
    const Real of_result = magnitude(static_cast<Real>(exponent(focus)) + largest);
    return largest >= kLeast && largest <= kMost && largest <= kNear + of_result;
  }
  static constexpr Focus moved(const Focus& focus, Real largest) {
    return {largest == kInfinity ? kFarthest : focus.centre + largest * static_cast<Real>(1 / kLog2E)};
  }
};

// log(sum(exp(x))).
template <class Element>
struct LogSumExp : ExponentialSum<Element, ExponentialTerms<Element>> {
  using Base = ExponentialSum<Element, ExponentialTerms<Element>>;
  using typename Base::Input, typename Base::Part;
  static constexpr bool kMeaningful = std::is_floating_point_v<Input>;
  static constexpr bool kCommon = true;

  static constexpr Input finish(const Part& part, const FinishArguments&) {
    constexpr double kLn2 = 0.6931471805599453;
    if (Base::is_plain(part)) return static_cast<Input>(Base::log2_of_part(part) * kLn2);
    return static_cast<Input>(part.sum == 0 ? -std::numeric_limits<double>::infinity() : part.sum);
  }
};

// |x|^p = 2^(p log2 |x|), relative to a centre near the leaf's largest |x|^p: a power of two, by which elements are
// scaled, and a rest within the octave, which is taken off their logarithms.
template <class Element>
struct PowerTerms {
  using Input = Accumulator<Element>;
  using Real = RealOf<Input>;
  using Limits = std::numeric_limits<Real>;
  static constexpr Real kMaxOctave = Limits::max_exponent - 2;

  struct Focus {
    Real octave, scale;  // scale = 2^-octave
    Real rest;
    Real order;  // p
  };
  // As torch does, the order is taken as a number of the accumulator's type; beyond these it makes no difference.
  static constexpr Real order_of(const FinishArguments& arguments) {
    constexpr double kLeast = Limits::min(), kMost = sizeof(Real) == 4 ? 0x1p100 : 0x1p900;
    const double order = arguments.parameter, size = magnitude(order);
    const double within = size < kLeast ? kLeast : size > kMost ? kMost : size;  // a NaN stays one
    return static_cast<Real>(order < 0 ? -within : within);
  }
  // The centre 2^(octave + rest), with whole octaves moved from the rest.
  static constexpr Focus at(Real octave, Real rest, Real order) {
    const Real octaves = octave + static_cast<Real>(static_cast<int>(rest));
    const Real within = octaves > kMaxOctave ? kMaxOctave : octaves < -kMaxOctave ? -kMaxOctave : octaves;
    const double power = negative_power_of_two(-static_cast<double>(magnitude(within)));
    return {within, static_cast<Real>(within > 0 ? power : 1 / power), rest - (within - octave), order};
  }
  static constexpr Focus focus(Input first, const FinishArguments& arguments) {
    const Real octaves = log2_of(magnitude(first));
    return at(0, octaves - octaves == 0 ? octaves : Real(0), order_of(arguments));
  }
  static constexpr Real exponent(Input x, const Focus& focus) {
    return (log2_of(magnitude(x) * focus.scale) - focus.rest) * focus.order;
  }
  static constexpr double exponent(const Focus& focus) {
    return (static_cast<double>(focus.octave) + focus.rest) * focus.order;
  }

  static constexpr bool keeps(const Focus&, Real largest) {
    constexpr Real kFarthest = 24;  // exponents near zero are rounded least
    return largest == Limits::infinity() || magnitude(largest) <= kFarthest;
  }
  static constexpr Focus moved(const Focus& focus, Real largest) {
    return at(focus.octave, focus.rest + largest / focus.order, focus.order);
  }
};

// A norm of order p, other than those of norm.h.
template <class Element>
struct PowerSum : ExponentialSum<Element, PowerTerms<Element>> {
  using Base = ExponentialSum<Element, PowerTerms<Element>>;
  using typename Base::Part, typename Base::Real;
  static constexpr bool kMeaningful = has_norm<Element>;

  static constexpr Real finish(const Part& part, const FinishArguments& arguments) {
    const double order = PowerTerms<Element>::order_of(arguments);
    if (Base::is_plain(part)) return static_cast<Real>(exp2_of(Base::log2_of_part(part) / order));
    if (part.sum != part.sum) return std::numeric_limits<Real>::quiet_NaN();
    const bool is_infinite = part.sum > 0 ? order > 0 : order < 0;
    return is_infinite ? std::numeric_limits<Real>::infinity() : Real(0);
  }
};

}  // namespace gpureduce
