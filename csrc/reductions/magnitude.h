// |x|, and square roots.
#pragma once

#include <cmath>

#include "reductions/extremum.h"

namespace gpureduce {

// Correctly rounded on CPU and GPU alike.
constexpr float square_root(float x) {
  return std::sqrt(x);
}
constexpr double square_root(double x) {
  return std::sqrt(x);
}

constexpr float magnitude(float x) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0x7fffffffu);
}
constexpr double magnitude(double x) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(x) & 0x7fffffffffffffffu);
}
// Squares of float32 are exact in float64, and their sum neither overflows nor underflows.
constexpr float magnitude(Complex<float> z) {
  const double re = z.re, im = z.im;
  return static_cast<float>(square_root(re * re + im * im));
}
// Scaled by a power of two to where squares neither overflow nor lose their last places.
constexpr double magnitude(Complex<double> z) {
  const double larger = winner<Extreme::kLargest>(magnitude(z.re), magnitude(z.im));
  const double scale = larger > 0x1p500 ? 0x1p-600 : larger < 0x1p-400 ? 0x1p600 : 1.0;
  const double back = larger > 0x1p500 ? 0x1p600 : larger < 0x1p-400 ? 0x1p-600 : 1.0;
  const double re = z.re * scale, im = z.im * scale;
  return square_root(re * re + im * im) * back;
}

}  // namespace gpureduce
