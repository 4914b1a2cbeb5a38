// Sums of powers of two: log-sum-exp, and norms of an order that has no shortcut.
#pragma once

#include "reductions/exponential.h"
#include "reductions/norm.h"
#include "reductions/scaled_sum.h"

namespace gpureduce {

// What is summed is 2^(exponent of x), relative to a focus near the leaf's largest exponent; a leaf whose first element
// was no good guess at that is walked again around the largest one. Leaves and results are sums in float64, with the
// exponent that they are relative to.
//
// Terms offers
//   Focus, focus(first, FinishArguments)
//   exponent(x, focus)           of an element, relative to the focus
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
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  struct Value {
    Real sum, largest;
  };

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
};

constexpr double nearest_integer(double x) {
  constexpr double kRound = 0x1.8p52;
  return magnitude(x) < 0x1p51 ? (x + kRound) - kRound : x;
}

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
  using Terms = ExponentialTerms<Element>;
  using Base = ExponentialSum<Element, Terms>;
  using typename Base::Input, typename Base::Value, typename Base::Focus;
  using Part = ScaledSum;
  static constexpr bool kMeaningful = std::is_floating_point_v<Input>;
  static constexpr bool kCommon = true;

  static constexpr Part part_identity() { return {0, ScaledSum::kFarBelow}; }
  static constexpr Part part(Value value, const Focus& focus, int64_t count) {
    if (count == 0) return part_identity();
    const double sum = value.sum;
    if (sum == Base::kInfinity) return {sum, ScaledSum::kFarAbove};
    const double exponent = Terms::exponent(focus), whole = nearest_integer(exponent);
    return {sum * exp2_of(exponent - whole), whole};
  }
  using Base::merge;
  static constexpr Part merge(const Part& a, const Part& b) { return a + b; }

  static constexpr Input finish(const Part& part, const FinishArguments&) {
    constexpr double kLn2 = 0.6931471805599453;
    if (part.sum == 0) return -std::numeric_limits<Input>::infinity();
    if (!(part.sum < Base::kInfinity)) return static_cast<Input>(part.sum);
    return static_cast<Input>((part.exponent + log2_of(part.sum)) * kLn2);
  }
};

// |x|^p = 2^(p log2 |x|), relative to a centre near the leaf's largest |x|^p.
template <class Element>
struct PowerTerms {
  using Input = Accumulator<Element>;
  using Real = RealOf<Input>;
  using Limits = std::numeric_limits<Real>;

  // log2 of a number, in whole octaves and the rest: so that neither large nor small numbers cost it places.
  struct Logarithm {
    Real octave, rest;
  };
  struct Focus {
    Logarithm centre;
    Real order;  // p
  };
  static constexpr Logarithm logarithm(Real size) {
    using Bits = std::conditional_t<sizeof(Real) == 4, uint32_t, uint64_t>;
    constexpr int kMantissa = Limits::digits - 1, kBias = Limits::max_exponent - 1;
    constexpr int kLifted = 64;  // octaves, by which subnormal numbers become normal
    const bool subnormal = size < Limits::min();
    const Real normal = subnormal ? size * Real(0x1p64) : size;
    if (!(normal > 0 && normal < Limits::infinity())) return {0, log2_of(normal)};
    const Bits bits = std::bit_cast<Bits>(normal), mantissa = bits & ((Bits(1) << kMantissa) - 1);
    const int octave = static_cast<int>(bits >> kMantissa) - kBias - (subnormal ? kLifted : 0);
    return {static_cast<Real>(octave), log2_of(std::bit_cast<Real>(mantissa | Bits(kBias) << kMantissa))};
  }
  // As torch does, the order is taken as a number of the accumulator's type; beyond these it makes no difference.
  static constexpr Real order_of(const FinishArguments& arguments) {
    constexpr double kLeast = Limits::min(), kMost = sizeof(Real) == 4 ? 0x1p100 : 0x1p900;
    const double order = arguments.parameter, size = magnitude(order);
    const double within = size < kLeast ? kLeast : size > kMost ? kMost : size;  // a NaN stays one
    return static_cast<Real>(order < 0 ? -within : within);
  }
  static constexpr Focus focus(Input first, const FinishArguments& arguments) {
    const Logarithm centre = logarithm(magnitude(first));
    return {centre.rest - centre.rest == 0 ? centre : Logarithm{0, 0}, order_of(arguments)};
  }
  static constexpr Real exponent(Input x, const Focus& focus) {
    const Logarithm size = logarithm(magnitude(x));
    return ((size.octave - focus.centre.octave) + (size.rest - focus.centre.rest)) * focus.order;
  }
  static constexpr bool keeps(const Focus&, Real largest) {
    constexpr Real kFarthest = 24;  // exponents near zero are rounded least
    return largest == Limits::infinity() || magnitude(largest) <= kFarthest;
  }
  static constexpr Focus moved(const Focus& focus, Real largest) {
    const Real rest = focus.centre.rest + largest / focus.order, whole = static_cast<Real>(static_cast<int>(rest));
    return {{focus.centre.octave + whole, rest - whole}, focus.order};
  }
};

// A norm of order p, other than those of norm.h.
template <class Element>
struct PowerSum : ExponentialSum<Element, PowerTerms<Element>> {
  using Base = ExponentialSum<Element, PowerTerms<Element>>;
  using typename Base::Real, typename Base::Value, typename Base::Focus;
  static constexpr bool kMeaningful = has_norm<Element>;

  // sum x 2^(order (octave + rest)), whose root has as many places whatever the octave.
  struct Part {
    double sum, octave, rest, order;
  };

  static constexpr Part part_identity() { return {0, 0, 0, 0}; }
  static constexpr Part part(Value value, const Focus& focus, int64_t count) {
    if (count == 0) return part_identity();
    return {value.sum, focus.centre.octave, focus.centre.rest, focus.order};
  }
  using Base::merge;
  static constexpr Part merge(const Part& a, const Part& b) {
    if (a.sum == 0) return b;
    if (b.sum == 0) return a;
    if (a.sum == Base::kInfinity || b.sum == Base::kInfinity) return {a.sum + b.sum, 0, 0, a.order};
    const double ahead = ((a.octave - b.octave) + (a.rest - b.rest)) * a.order, down = exp2_of(-magnitude(ahead));
    // Of equal centres it matters how they are put together, so that it is not the first one that counts.
    if (ahead > 0 || (ahead == 0 && a.octave > b.octave)) return {a.sum + b.sum * down, a.octave, a.rest, a.order};
    return {a.sum * down + b.sum, b.octave, b.rest, b.order};
  }

  static constexpr Real finish(const Part& part, const FinishArguments& arguments) {
    if (part.sum == 0 || part.sum == Base::kInfinity) {
      const bool is_infinite = part.sum > 0 ? arguments.parameter > 0 : arguments.parameter < 0;
      return is_infinite ? std::numeric_limits<Real>::infinity() : Real(0);
    }
    if (part.sum != part.sum) return std::numeric_limits<Real>::quiet_NaN();
    const double octaves = part.rest + log2_of(part.sum) / part.order, whole = nearest_integer(octaves);
    return static_cast<Real>(times_power_of_two(exp2_of(octaves - whole), part.octave + whole));
  }

 private:
  // x 2^octaves for x near 1: rounded once, also where it is subnormal.
  static constexpr double times_power_of_two(double x, double octaves) {
    constexpr double kMost = 2040;
    const double within = octaves > kMost ? kMost : octaves < -kMost ? -kMost : octaves;
    const double half = static_cast<double>(static_cast<int>(within / 2));
    return x * power_of_two(half) * power_of_two(within - half);
  }
  static constexpr double power_of_two(double octaves) {
    return octaves > 0 ? 1 / negative_power_of_two(-octaves) : negative_power_of_two(octaves);
  }
};

}  // namespace gpureduce
