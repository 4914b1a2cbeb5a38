// Element types a tensor may hold that C++ has no type for, and the one conversion between any two of them.
// Everything is constexpr: the CPU loops and the GPU kernels run the very same code, so they round alike.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace gpureduce {

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct Float8E4M3 {  // "fn": no infinities, 0x7f is NaN
  uint8_t bits;
};
struct Float8E5M2 {
  uint8_t bits;
};
struct Bool {  // true when the byte is non-zero, whatever byte it is
  uint8_t bits;
};

template <class Real>
struct alignas(2 * sizeof(Real)) Complex {
  Real re, im;
  Complex() = default;
  constexpr Complex(Real real, Real imaginary = Real(0)) : re(real), im(imaginary) {}
  friend constexpr Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  friend constexpr Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  friend constexpr Complex operator*(Complex a, Real factor) { return {a.re * factor, a.im * factor}; }
};

template <class T>
inline constexpr bool is_complex = false;
template <class Real>
inline constexpr bool is_complex<Complex<Real>> = true;

// The type of a number's real part, and of its absolute value.
template <class T>
struct RealPart {
  using type = T;
};
template <class Real>
struct RealPart<Complex<Real>> {
  using type = Real;
};
template <class T>
using RealOf = typename RealPart<T>::type;

template <class T>
inline constexpr bool is_small_float = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> ||
                                       std::is_same_v<T, Float8E4M3> || std::is_same_v<T, Float8E5M2>;

// ---- small floats to float32: exact

constexpr float to_float(BFloat16 x) {
  return std::bit_cast<float>(uint32_t{x.bits} << 16);
}

constexpr float to_float(Half x) {
  const uint32_t sign = uint32_t{x.bits} >> 15 << 31;
  const uint32_t exponent = x.bits >> 10 & 31, mantissa = x.bits & 1023;
  const float subnormal = static_cast<float>(mantissa) * 0x1p-24f;
  const uint32_t rebased = exponent == 31 ? 255 : exponent + 112;
  const uint32_t normal = rebased << 23 | mantissa << 13;
  return std::bit_cast<float>(sign | (exponent == 0 ? std::bit_cast<uint32_t>(subnormal) : normal));
}

constexpr float to_float(Float8E5M2 x) {
  return to_float(Half{static_cast<uint16_t>(x.bits << 8)});
}

constexpr float to_float(Float8E4M3 x) {
  const uint32_t sign = uint32_t{x.bits} >> 7 << 31;
  const uint32_t exponent = x.bits >> 3 & 15, mantissa = x.bits & 7;
  const float subnormal = static_cast<float>(mantissa) * 0x1p-9f;
  const uint32_t normal = (x.bits & 127) == 127 ? 0x7fc00000u : (exponent + 120) << 23 | mantissa << 20;
  return std::bit_cast<float>(sign | (exponent == 0 ? std::bit_cast<uint32_t>(subnormal) : normal));
}

// ---- float32 to small floats: to nearest, ties to even

// The shape of a small float: where its exponent and mantissa lie, and what overflow and NaN become.
struct SmallFloatFormat {
  int mantissa_bits, bias, sign_shift;
  uint32_t overflow_at;  // bits of the smallest float32 that is past the largest finite value whatever the rounding
  uint32_t overflow, nan;
};
inline constexpr SmallFloatFormat kHalfFormat{10, 15, 16, 0x47800000u, 0x7c00u, 0x7e00u};
inline constexpr SmallFloatFormat kE4M3Format{3, 7, 24, 0x43f00000u, 0x7fu, 0x7fu};
inline constexpr SmallFloatFormat kE5M2Format{2, 15, 24, 0x47800000u, 0x7cu, 0x7fu};

// The format is a template argument and not a reference: a GPU cannot read a host constant through one.
template <SmallFloatFormat format>
constexpr uint32_t round_to(float x) {
  const uint32_t all = std::bit_cast<uint32_t>(x), magnitude = all & 0x7fffffffu;
  const uint32_t sign = (all >> 31 << 31) >> format.sign_shift;
  if (magnitude > 0x7f800000u) return sign | format.nan;
  if (magnitude >= format.overflow_at) return sign | format.overflow;
  const int drop = 23 - format.mantissa_bits;
  if (magnitude < static_cast<uint32_t>(128 - format.bias) << 23) {
    // Subnormal: adding a number whose last place is the format's smallest step lets the addition itself round.
    const uint32_t step = static_cast<uint32_t>(128 - format.bias + drop) << 23;
    return sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(step)) - step);
  }
  const uint32_t odd = magnitude >> drop & 1, half_less_one = (1u << (drop - 1)) - 1;
  const uint32_t rebase = static_cast<uint32_t>(127 - format.bias) << 23;
  return sign | (magnitude - rebase + half_less_one + odd) >> drop;
}

constexpr uint16_t round_to_bfloat16(float x) {
  const uint32_t all = std::bit_cast<uint32_t>(x);
  if ((all & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
  return static_cast<uint16_t>((all + 0x7fff + (all >> 16 & 1)) >> 16);
}

// Out-of-range and NaN: C++ leaves the cast undefined and CPU and GPU differ, so it is pinned here.
constexpr int64_t to_int64(double x) {
  if (x != x) return 0;
  if (x >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (x <= -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(x);
}

constexpr uint64_t to_uint64(double x) {
  if (x >= 0x1p64) return std::numeric_limits<uint64_t>::max();
  return x >= 0x1p63 ? static_cast<uint64_t>(x) : static_cast<uint64_t>(to_int64(x));
}

// `from` as a To, rounded once to nearest even (float64 to the small floats goes through float32, as torch does).
// Integers wrap, anything non-zero is true, complex to real drops the imaginary part.
template <class To, class From>
constexpr To convert(From from) {
  if constexpr (std::is_same_v<To, From>) {
    return from;
  } else if constexpr (std::is_same_v<From, Bool>) {
    return convert<To>(static_cast<int64_t>(from.bits != 0));
  } else if constexpr (is_small_float<From>) {
    return convert<To>(to_float(from));
  } else if constexpr (is_complex<From>) {
    if constexpr (is_complex<To>) {
      using Real = decltype(To::re);
      return {convert<Real>(from.re), convert<Real>(from.im)};
    } else if constexpr (std::is_same_v<To, Bool>) {
      return {from.re != 0 || from.im != 0};
    } else {
      return convert<To>(from.re);
    }
  } else if constexpr (is_complex<To>) {
    return {convert<decltype(To::re)>(from)};
  } else if constexpr (std::is_same_v<To, Bool>) {
    return {from != From(0)};
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return {round_to_bfloat16(static_cast<float>(from))};
  } else if constexpr (std::is_same_v<To, Half>) {
    return {static_cast<uint16_t>(round_to<kHalfFormat>(static_cast<float>(from)))};
  } else if constexpr (std::is_same_v<To, Float8E4M3>) {
    return {static_cast<uint8_t>(round_to<kE4M3Format>(static_cast<float>(from)))};
  } else if constexpr (std::is_same_v<To, Float8E5M2>) {
    return {static_cast<uint8_t>(round_to<kE5M2Format>(static_cast<float>(from)))};
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    if constexpr (std::is_same_v<To, uint64_t>) return to_uint64(from);
    return static_cast<To>(to_int64(from));
  } else {
    return static_cast<To>(from);
  }
}

}  // namespace gpureduce
