// Sums of powers of two: log-sum-exp, and norms of an order that has no shortcut.
#pragma once

#include "reductions/exponential.h"
#include "reductions/norm.h"
#include "reductions/scaled_sum.h"

namespace gpureduce {

// What is summed is 2^(exponent of x), relative to a focus near the leaf's largest exponent; a leaf whose first element
// was no good guess at that is walked again around the largest one. Leaves and results are sums in float64, with what
// they are relative to. That is chosen coarsely, so that leaves seldom differ in it and are put together by additions.
//
// Terms offers
//   Focus, focus(first, FinishArguments)
//   term(x, focus)               2^exponent, and the exponent, relative to the focus
//   keeps(focus, largest)        whether `largest`, relative to it, is near enough to the focus
//   moved(focus, largest)        a focus at `largest`
template <class Element, class Terms>
struct ExponentialSum {
  using Input = Accumulator<Element>;
  using Real = RealOf<Input>;
  using Focus = typename Terms::Focus;
  using Value = typename Terms::Term;

  static constexpr bool kConverts = true;
  static constexpr bool kOrdered = true;
  static constexpr bool kWideLane = true;
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  // -0 + x is x, and takes no instruction.
  static constexpr Value identity() { return {-0.0, -std::numeric_limits<Real>::infinity()}; }
  static constexpr Focus focus(const std::array<Input, 1>& first, const FinishArguments& arguments) {
    return Terms::focus(first[0], arguments);
  }
  static constexpr Value take(Value value, Input x, int64_t, const Focus& focus) {
    return merge(value, Terms::term(x, focus));
  }
  // A NaN is in the sum and never the largest.
  static constexpr Value merge(Value a, Value b) { return {a.sum + b.sum, larger_of(a.largest, b.largest)}; }
  static constexpr bool refocus(Focus& focus, Value value, int64_t, const FinishArguments&) {
    if (value.largest == -std::numeric_limits<Real>::infinity() || Terms::keeps(focus, value.largest)) return false;
    focus = Terms::moved(focus, value.largest);
    return true;
  }
};

template <class Sum, class Real>
struct SumAndLargest {
  Sum sum;
  Real largest;
};

// exp(x) = 2^(x log2 e), around a centre: distances of neighbours are exact.
template <class Element>
struct ExponentialTerms {
  using Real = Accumulator<Element>;
  using Term = SumAndLargest<Real, Real>;
  static constexpr double kLog2E = 1.4426950408889634;
  static constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
  // Half the largest number: no distance from it overflows.
  static constexpr Real kFarthest = std::numeric_limits<Real>::max() / 2;

  struct Focus {
    Real centre;
  };
  static constexpr Real coarse(Real x) {
    constexpr Real kStep = 8;
    return nearest_integer(x * (1 / kStep)) * kStep;
  }
  static constexpr Focus focus(Real first, const FinishArguments& arguments) {
    if (first - first != 0) return {0};
    return {arguments.num_elements == 1 ? first : coarse(first)};  // of one element the result is that element
  }
  static constexpr Term term(Real x, const Focus& focus) {
    const Real exponent = (x - focus.centre) * static_cast<Real>(kLog2E);
    return {exp2_of(exponent), exponent};
  }

  // An exponent is rounded to its last place, which is an error of as much in the logarithm: it is to stay below that
  // of the result's own rounding. Results of 16 bits and less only need it in range.
  static constexpr bool keeps(const Focus& focus, Real largest) {
    if (largest == kInfinity) return focus.centre == kFarthest;  // +inf is among the elements, or it overflowed
    constexpr Real kLeast = -40, kMost = 100, kNear = is_small_float<Element> ? kMost : 8;
    const Real of_result = magnitude(focus.centre * static_cast<Real>(kLog2E) + largest);
    return largest >= kLeast && largest <= kMost && largest <= kNear + of_result;
  }
  static constexpr Focus moved(const Focus& focus, Real largest) {
    if (largest == kInfinity) return {kFarthest};
    return {coarse(focus.centre + largest * static_cast<Real>(1 / kLog2E))};
  }
};

// log(sum(exp(x))).
template <class Element>
struct LogSumExp : ExponentialSum<Element, ExponentialTerms<Element>> {
  using Terms = ExponentialTerms<Element>;
  using Base = ExponentialSum<Element, Terms>;
  using typename Base::Input, typename Base::Value, typename Base::Focus;
  static constexpr bool kMeaningful = std::is_floating_point_v<Input>;
  static constexpr bool kCommon = true;

  // sum x exp(centre). The centre of what is zero, infinite or no number is 0.
  struct Part {
    double sum, centre;
  };

  static constexpr Part part_identity() { return {0, 0}; }
  static constexpr Part part(Value value, const Focus& focus, int64_t count, const FinishArguments&) {
    if (count == 0) return part_identity();
    const double sum = value.sum;
    return {sum, sum > 0 && sum < Base::kInfinity ? static_cast<double>(focus.centre) : 0};
  }
  using Base::merge;
  static constexpr Part merge(const Part& a, const Part& b) {
    if (a.centre == b.centre) return {a.sum + b.sum, a.centre};
    if (a.sum == 0) return b;
    if (b.sum == 0) return a;
    if (!(a.sum + b.sum < Base::kInfinity)) return {a.sum + b.sum, 0};
    const double down = exp2_of(-magnitude(a.centre - b.centre) * Terms::kLog2E);
    if (a.centre > b.centre) return {a.sum + b.sum * down, a.centre};
    return {a.sum * down + b.sum, b.centre};
  }

  static constexpr Input finish(const Part& part, const FinishArguments&) {
    constexpr double kLn2 = 0.6931471805599453;
    if (part.sum == 0) return -std::numeric_limits<Input>::infinity();
    if (!(part.sum < Base::kInfinity)) return static_cast<Input>(part.sum);
    // A logarithm in float64 takes longer than a short row of narrow elements.
    if constexpr (is_small_float<Element>) {
      if (part.sum > 0x1p-120 && part.sum < 0x1p120) {
        return static_cast<Input>(part.centre + log2_of(static_cast<float>(part.sum)) * kLn2);
      }
    }
    return static_cast<Input>(part.centre + log2_of(part.sum) * kLn2);
  }
};

// |x|^p = 2^(p log2 |x|), relative to a centre near the leaf's largest |x|^p.
template <class Element>
struct PowerTerms {
  using Input = Accumulator<Element>;
  using Real = RealOf<Input>;
  using Term = SumAndLargest<double, Real>;  // roots of small orders, and inverse ones, magnify what a sum loses
  using Limits = std::numeric_limits<Real>;
  using Bits = std::conditional_t<sizeof(Real) == 4, uint32_t, uint64_t>;
  static constexpr int kMantissa = Limits::digits - 1;
  static constexpr Real kBeyond = 0x1p110;  // all exponents of numbers that are neither 0 nor infinite

  // log2 of a number, in whole octaves and the rest: so that neither large nor small numbers cost it places.
  struct Logarithm {
    Real octave, rest;
  };
  struct Focus {
    Logarithm centre;
    Real order;  // p
    int moves;
  };
  static constexpr int kMostMoves = 4;  // whatever the roundings, a walk ends
  static constexpr Logarithm logarithm(Real size) {
    constexpr int kBias = Limits::max_exponent - 1;
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
    constexpr double kLeast = Limits::min(), kMost = 0x1p90;
    const double order = arguments.parameter, size = magnitude(order);
    const double within = size < kLeast ? kLeast : size > kMost ? kMost : size;  // a NaN stays one
    return static_cast<Real>(order < 0 ? -within : within);
  }
  static constexpr Focus focus(Input first, const FinishArguments& arguments) {
    constexpr Real kStep = 16;  // octaves
    const Real order = order_of(arguments);
    const Logarithm size = logarithm(magnitude(first));
    if (size.rest - size.rest != 0) return {{0, 0}, order, 0};
    if (arguments.num_elements == 1) return {size, order, 0};  // small orders magnify the least distance
    return {{nearest_integer(size.octave * (1 / kStep)) * kStep, 0}, order, 0};
  }
  // The exponent in two parts, p times the octaves and p times the rest, each in an integer and a fraction, so that it
  // is rounded as a number below 1 is and not as what it comes to.
  static constexpr Term term(Input x, const Focus& focus) {
    const Logarithm size = logarithm(magnitude(x));
    const Real octaves = size.octave - focus.centre.octave, rest = size.rest - focus.centre.rest;
    // p = high + low, where high times the octaves is exact.
    constexpr Bits kHigh = ~Bits(0) << (kMantissa / 2);
    const Real high = std::bit_cast<Real>(static_cast<Bits>(std::bit_cast<Bits>(focus.order) & kHigh));
    const Real large = octaves * high, small = within(rest * focus.order + octaves * (focus.order - high));
    const Real whole_large = nearest_integer(large), whole_small = nearest_integer(small);
    const Real fraction = (large - whole_large) + (small - whole_small);
    return {exp2_of(whole_large + whole_small, fraction), large + small};
  }
  static constexpr bool keeps(const Focus& focus, Real largest) {
    constexpr Real kFarthest = 60;
    const Real size = magnitude(largest);
    return size >= kBeyond / 2 || size <= kFarthest || focus.moves == kMostMoves;
  }
  // To a whole octave, or for large orders to the largest element itself, in the octave and rest that it has.
  static constexpr Focus moved(const Focus& focus, Real largest) {
    constexpr Real kMost = 60;  // of an order for which a whole octave is near enough
    const Real rest = focus.centre.rest + largest / focus.order, nearest = nearest_integer(rest);
    const int moves = focus.moves + 1;
    if (magnitude(focus.order) <= kMost) return {{focus.centre.octave + nearest, 0}, focus.order, moves};
    const Real whole = nearest > rest ? nearest - 1 : nearest;
    return {{focus.centre.octave + whole, rest - whole}, focus.order, moves};
  }

 private:
  static constexpr Real within(Real x) { return x > kBeyond ? kBeyond : x < -kBeyond ? -kBeyond : x; }
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
  static constexpr Part part(Value value, const Focus& focus, int64_t count, const FinishArguments&) {
    if (count == 0) return part_identity();
    return {value.sum, focus.centre.octave, focus.centre.rest, focus.order};
  }
  using Base::merge;
  static constexpr Part merge(const Part& a, const Part& b) {
    if (a.sum == 0) return b;
    if (b.sum == 0) return a;
    if (a.octave == b.octave && a.rest == b.rest) return {a.sum + b.sum, a.octave, a.rest, a.order};
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
    // The sum is m 2^k. Of k / p what is whole is taken apart, so that nothing large is rounded.
    const double k = nearest_integer(log2_of(part.sum)), of_m = log2_of(times_power_of_two(part.sum, -k));
    const double quotient = nearest_integer(k / part.order), left = fma(-quotient, part.order, k);
    const double octaves = part.rest + (left + of_m) / part.order, whole = nearest_integer(octaves);
    return static_cast<Real>(times_power_of_two(exp2_of(octaves - whole), part.octave + quotient + whole));
  }
};

}  // namespace gpureduce
