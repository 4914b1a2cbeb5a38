// Powers of two that elements are taken times before they are squared, which is exact: where squares of a type overflow
// or underflow, a leaf whose sum of squares is out of bounds is walked again with another one. docs/accuracy.md derives
// the numbers.
#pragma once

#include "core/elements.h"

namespace gpureduce {

// The squares of float16 and float8, zero or from 2^-48 to 2^32, are all in range of float32, and so are their sums.
template <class Element>
inline constexpr bool squares_leave_range = !is_small_float<Element> || std::is_same_v<Element, BFloat16>;

// kUsual comes first. A sum of squares beyond kLarge is walked again with kDown, one below kSmall for each element with
// kUp.
template <class Real>
struct SquareScales {
  static constexpr Real kUsual = 0x1p20f, kDown = 0x1p-80f, kUp = 0x1p100f;
  static constexpr Real kLarge = 0x1p120f, kSmall = 0x1p-120f;
};
template <>
struct SquareScales<double> {
  static constexpr double kUsual = 1, kDown = 0x1p-600, kUp = 0x1p600;
  static constexpr double kLarge = 0x1p1000, kSmall = 0x1p-960;
};

// 1 / scale, of float32's scales, without a division.
constexpr double unscaled(float scale) {
  using Scales = SquareScales<float>;
  return scale == Scales::kUsual ? 1.0 / Scales::kUsual
         : scale == Scales::kUp  ? 1.0 / Scales::kUp
                                 : 1.0 / Scales::kDown;
}

// A product with a scale is exact, or so far below every shift that is settled that the difference is the same: it is
// rounded once, in one instruction of a GPU.
constexpr float settled_shift(float shift) {
  return shift > -0x1p-100f && shift < 0x1p-100f ? 0 : shift;
}
constexpr float scaled_distance(float x, float scale, float shift) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(x, scale, -shift);
#else
  return x * scale - shift;
#endif
}

}  // namespace gpureduce
