// Mean and variance in one reading.
#pragma once

#include "reductions/magnitude.h"
#include "reductions/square_scales.h"

namespace gpureduce {

// A lane sums distances from the leaf's focus, the mean of its first few elements, and their squares: no division, and
// no cancellation that matters, since a leaf whose elements are far from its focus is walked again around its mean.
// Leaves and results are (count, mean, sum of squared distances from it) in float64, merged as Chan, Golub and LeVeque
// (1979) do.
template <class Element>
struct Moments {
  using Input = Accumulator<Element>;
  using Real = RealOf<Input>;
  using Wide = std::conditional_t<is_complex<Input>, Complex<double>, double>;
  using Scales = SquareScales<Real>;
  // float64 is taken as it is: what its squares cannot hold, its variance cannot either.
  static constexpr bool kScaled = squares_leave_range<Element> && std::is_same_v<Real, float>;
  static constexpr Real kFirstScale = kScaled ? Scales::kUsual : Real(1);

  static constexpr bool kMeaningful = !std::is_integral_v<Input> && !is_converted<Element>;
  static constexpr bool kConverts = false;
  static constexpr bool kOrdered = true;
  static constexpr bool kWideLane = true;
  static constexpr bool kCommon = true;

  // A vector of them, or half of one: float8 is measured as float16 is.
  static constexpr int kSamples = sizeof(Element) == 1 ? 8 : sizeof(Element) < 16 ? 16 / sizeof(Element) : 1;
  static constexpr int64_t kFew = 2048, kMany = 65536;  // elements of a leaf

  struct Value {
    Input sum;
    Real squares;
  };
  struct Focus {
    Input shift;  // scaled
    Real scale;
    int centred;  // how many times
  };
  struct Part {
    double count, squares;
    Wide mean;
  };

  static constexpr Value identity() { return {Input(kZero), kZero}; }
  static constexpr Focus focus(const std::array<Input, kSamples>& samples, const FinishArguments&) {
    const Input mean = scaled(sum_of(samples) * (Real(1) / kSamples), kFirstScale);
    const Input shift = is_finite(mean) ? mean : scaled(samples[0], kFirstScale);
    return {is_finite(shift) ? shift : Input(0), kFirstScale, 0};
  }
  static constexpr Value take(Value value, Input x, int64_t, const Focus& focus) {
    const Input distance = distance_from(focus, x);
    return merge(value, {distance, square(distance)});
  }
  static constexpr Value merge(Value a, Value b) { return {a.sum + b.sum, a.squares + b.squares}; }

  // In the lanes' own arithmetic: every thread that has part in a leaf decides.
  static constexpr bool refocus(Focus& focus, Value value, int64_t count, const FinishArguments& arguments) {
    const Real inverse = static_cast<Real>(inverse_of(count, arguments));
    if constexpr (kScaled) {
      if (focus.scale == Scales::kUsual) {
        const bool is_large = !(value.squares <= Scales::kLarge);  // or NaN
        // A variance of so little is 0, its root is not. What is further from 0 has no such distances.
        const bool is_small = arguments.how == Finish::kStd &&
                              value.squares < static_cast<Real>(count) * Scales::kSmall && square(focus.shift) < 1;
        if (is_large || is_small) {
          const Real scale = is_large ? Scales::kDown : Scales::kUp;
          focus.shift = settled(focus.shift * (scale / focus.scale));
          focus.scale = scale;
          return true;
        }
      }
    }
    // The difference that the variance is computed from would lose more than 1.7 of the squares' bits; or three, or
    // four, where there are so many that their roundings cancel, and a leaf that is walked again is waited for. Where
    // the first elements were out of range, the mean is found in two steps.
    const Real most = count < kFew ? Real(0.6875) : count < kMany ? Real(0.875) : Real(0.9375);
    if (focus.centred < 2 && product(value.sum * inverse, value.sum) > most * value.squares) {
      focus.shift = settled(focus.shift + value.sum * inverse);
      focus.centred++;
      return true;
    }
    return false;
  }

  static constexpr Part part_identity() { return {0, 0, Wide(0)}; }
  static constexpr Part part(Value value, const Focus& focus, int64_t count, const FinishArguments& arguments) {
    if (count == 0) return part_identity();
    const double n = static_cast<double>(count), back = kScaled ? unscaled(focus.scale) : 1;
    const Wide sum = convert<Wide>(value.sum), mean = sum * inverse_of(count, arguments);
    const double squares = static_cast<double>(value.squares) - product(mean, sum);
    return {n, (squares < 0 ? 0 : squares) * back * back, (convert<Wide>(focus.shift) + mean) * back};
  }
  static constexpr Part merge(const Part& a, const Part& b) {
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    const Wide away = a.mean - b.mean;
    const double count = a.count + b.count, apart = square(away);
    // No division for all leaves but the last, and no rounding of what is the same everywhere.
    if (a.count == b.count || is_zero(away)) {
      return {count, (a.squares + b.squares) + apart * (a.count * 0.5), (a.mean + b.mean) * 0.5};
    }
    const double inverse = 1 / count, of_a = a.count * inverse, of_b = b.count * inverse;
    return {count, (a.squares + b.squares) + apart * (a.count * of_b), a.mean * of_a + b.mean * of_b};
  }

  // The variance or the standard deviation, and the mean.
  static constexpr std::tuple<Real, Input> finish(const Part& part, const FinishArguments& arguments) {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    if (part.count == 0) return {static_cast<Real>(kNan), convert<Input>(Wide(0) * kNan)};
    const double variance = part.squares * arguments.parameter;
    const double spread = arguments.how == Finish::kStd ? square_root(variance) : variance;
    return {static_cast<Real>(spread), convert<Input>(part.mean)};
  }

 private:
  static constexpr Real kZero = -0.0;  // added to anything it changes nothing, nor does it take an instruction

  static constexpr double inverse_of(int64_t count, const FinishArguments& arguments) {
    if (count == arguments.num_elements) return arguments.per_element;
    if (count == arguments.leaf_elements) return arguments.per_leaf_element;
    return 1 / static_cast<double>(count);
  }
  // In halves, so that of equal numbers it is exact.
  template <size_t kCount>
  static constexpr Input sum_of(const std::array<Input, kCount>& numbers) {
    if constexpr (kCount == 1) {
      return numbers[0];
    } else {
      std::array<Input, kCount / 2> half{};
      for (size_t i = 0; i < kCount / 2; i++) half[i] = numbers[i] + numbers[i + kCount / 2];
      return sum_of(half);
    }
  }
  static constexpr Input scaled(Input x, Real scale) {
    if constexpr (kScaled) return x * scale;
    return x;
  }
  static constexpr Input distance_from(const Focus& focus, Input x) {
    if constexpr (!kScaled) {
      return x - focus.shift;
    } else if constexpr (is_complex<Input>) {
      return {scaled_distance(x.re, focus.scale, focus.shift.re), scaled_distance(x.im, focus.scale, focus.shift.im)};
    } else {
      return scaled_distance(x, focus.scale, focus.shift);
    }
  }
  static constexpr Input settled(Input shift) {
    if constexpr (!kScaled) {
      return shift;
    } else if constexpr (is_complex<Input>) {
      return {settled_shift(shift.re), settled_shift(shift.im)};
    } else {
      return settled_shift(shift);
    }
  }
  // Of complex numbers that point the same way.
  template <class T>
  static constexpr auto product(T a, T b) {
    if constexpr (is_complex<T>) {
      return a.re * b.re + a.im * b.im;
    } else {
      return a * b;
    }
  }
  template <class T>
  static constexpr auto square(T x) {
    return product(x, x);
  }
  static constexpr bool is_zero(Wide x) {
    if constexpr (is_complex<Wide>) {
      return x.re == 0 && x.im == 0;
    } else {
      return x == 0;
    }
  }
  static constexpr bool is_finite(Input x) {
    if constexpr (is_complex<Input>) {
      return x.re - x.re == 0 && x.im - x.im == 0;
    } else {
      return x - x == 0;
    }
  }
};

}  // namespace gpureduce
