// Neighbours converted to what they are combined in.
#pragma once

#include <limits>
#include <type_traits>

#include "cpu/pack.h"

namespace gpureduce::cpu {

// Whether there is a loop of vectors for it; else elements are converted one by one.
template <class To, class From>
inline constexpr bool converts_in_vectors =
    is_small_float<From> ? std::is_same_v<To, float>
                         : std::is_floating_point_v<To> && (std::is_integral_v<From> || std::is_same_v<From, Bool>);

// All values of a type of one byte: there are fewer of them than steps in a conversion of several.
template <class From>
inline constexpr auto all_floats = [] {
  std::array<float, 256> floats{};
  for (int bits = 0; bits < 256; bits++) floats[bits] = to_float(From{static_cast<uint8_t>(bits)});
  return floats;
}();

template <class To, class From>
void convert_narrow(To* __restrict to, const From* __restrict from, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    if constexpr (is_small_float<From> && sizeof(From) == 1) {
      to[i] = all_floats<From>[from[i].bits];
    } else if constexpr (is_small_float<From>) {
      to[i] = to_float(from[i]);
    } else if constexpr (std::is_same_v<From, Bool>) {
      to[i] = static_cast<To>(static_cast<int32_t>(from[i].bits != 0));
    } else {
      to[i] = static_cast<To>(static_cast<int32_t>(from[i]));
    }
  }
}

// By the processor's own instruction.
inline void convert_halves(float* __restrict to, const Half* __restrict from, int64_t count) {
  constexpr int64_t kSize = Pack<float>::kSize;
  int64_t i = 0;
  for (; i + kSize <= count; i += kSize) {
    Pack<float> pack;
    avx2::load(pack, from + i);
    std::memcpy(to + i, &pack, sizeof pack);
  }
  for (; i < count; i++) to[i] = to_float(from[i]);
}

// AVX2 has instructions for int32 only. Most blocks of longer integers hold none that is longer than that.
template <Isa kIsa, class To, class From>
void convert_neighbours(To* __restrict to, const From* __restrict from, int64_t count) {
  if constexpr (std::is_same_v<From, Half> && has_avx2<kIsa>) {
    convert_halves(to, from, count);
  } else if constexpr (sizeof(From) < 4 || std::is_same_v<From, int32_t>) {
    convert_narrow(to, from, count);
  } else {
    constexpr int64_t kBlock = 64;
    for (; count > 0; from += kBlock, to += kBlock, count -= kBlock) {
      const int64_t block = count < kBlock ? count : kBlock;
      using Unsigned = std::make_unsigned_t<From>;
      // Of a signed integer that fits, the upper half repeats the sign.
      constexpr Unsigned kOffset = std::is_signed_v<From> ? Unsigned(1) << 31 : 0;
      constexpr int kBits = std::is_signed_v<From> ? 32 : 31;
      Unsigned beyond = 0;
      for (int64_t i = 0; i < block; i++) beyond |= static_cast<Unsigned>(from[i]) + kOffset;
      if (beyond >> kBits == 0) {
        convert_narrow(to, from, block);
      } else {
        for (int64_t i = 0; i < block; i++) to[i] = convert<To>(from[i]);
      }
    }
  }
}

}  // namespace gpureduce::cpu
