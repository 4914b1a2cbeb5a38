// Powers of two and logarithms to base two, as fast as reductions need them. A GPU has an instruction for the powers in
// float32, with a relative error of 2^-22; the CPU's are at least as accurate. Logarithms are within an ulp on both.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "reductions/magnitude.h"
#include "reductions/scaled_sum.h"

namespace gpureduce {

// The larger one; of a number and a NaN the number. One instruction on a GPU.
template <class Real>
constexpr Real larger_of(Real a, Real b) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(Real) == 4) return fmaxf(a, b);
  return fmax(a, b);
#else
  return b > a ? b : a;
#endif
}

// An integer within 1/2; beyond 2^22 (float64: 2^51) the number itself.
template <class Real>
constexpr Real nearest_integer(Real x) {
  constexpr Real kRound = sizeof(Real) == 4 ? Real(0x1.8p23) : Real(0x1.8p52), kMost = kRound / 3;
  return magnitude(x) < kMost ? (x + kRound) - kRound : x;
}

// x 2^octaves for x near 1 and an integer: rounded once, also where it is subnormal.
constexpr double times_power_of_two(double x, double octaves) {
  constexpr double kMost = 2040;
  const double within = !(octaves > -kMost) ? -kMost : octaves < kMost ? octaves : kMost;  // also of a NaN
  const double half = static_cast<double>(static_cast<int>(within / 2)), rest = within - half;
  const auto power = [](double n) { return n > 0 ? 1 / negative_power_of_two(-n) : negative_power_of_two(n); };
  return x * power(half) * power(rest);
}

// 2^(whole + fraction), of an integer and a number near 0, by the polynomial of its degree that comes nearest to 2^f
// for f from -1/2 to 1/2, within 2^-28, and is 1 at 0. No branch and no call, so that a compiler can do many at once.
// Below 2^-126.5 it is 0.
constexpr float exp2_of(float whole, float fraction) {
  constexpr float kRound = 0x1.8p23f;  // adding it rounds to an integer, in the low bits
  const float least = -127, most = 128;
  const float nearest = (fraction + kRound) - kRound, f = fraction - nearest, all = whole + nearest;
  const float within = all < least ? least : all > most ? most : all;
  float series = 1.53533724e-4f;
  series = series * f + 1.33988738e-3f;
  series = series * f + 9.61843732e-3f;
  series = series * f + 5.55033247e-2f;
  series = series * f + 2.40226479e-1f;
  series = series * f + 6.93147203e-1f;
  series = series * f + 1.0f;
  const uint32_t exponent = std::bit_cast<uint32_t>(within + kRound) - std::bit_cast<uint32_t>(kRound) + 127;
  return series * std::bit_cast<float>(exponent << 23);
}
#ifdef __CUDACC__
// In float64 these are long on a GPU, and called from many places of a kernel: kept out of it.
inline __device__ __noinline__ double exp2_apart(double whole, double fraction) {
  return times_power_of_two(exp2(fraction), whole);
}
inline __device__ __noinline__ double exp2_apart(double x) {
  return exp2(x);
}
inline __device__ __noinline__ double log2_apart(double x) {
  return log2(x);
}
#endif

constexpr double exp2_of(double whole, double fraction) {
#ifdef __CUDA_ARCH__
  return exp2_apart(whole, fraction);
#else
  return times_power_of_two(exp2(fraction), whole);
#endif
}

constexpr float exp2_of(float x) {
#ifdef __CUDA_ARCH__
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  const float least = -127, most = 128;
  return exp2_of(0, x < least ? least : x > most ? most : x);  // a NaN stays one
#endif
}
constexpr double exp2_of(double x) {
#ifdef __CUDA_ARCH__
  return exp2_apart(x);
#else
  return exp2(x);
#endif
}

constexpr float log2_of(float x) {
#ifdef __CUDA_ARCH__
  return log2f(x);
#else
  return static_cast<float>(std::log2(static_cast<double>(x)));
#endif
}
constexpr double log2_of(double x) {
#ifdef __CUDA_ARCH__
  return log2_apart(x);
#else
  return log2(x);
#endif
}

}  // namespace gpureduce
