// Neighbours converted to what they are combined in.
#pragma once

#include <limits>
#include <type_traits>

#include "core/elements.h"

namespace gpureduce::cpu {

// Whether there is a loop of vectors for it; else elements are converted one by one.
template <class To, class From>
inline constexpr bool converts_in_vectors =
    std::is_floating_point_v<To> && (std::is_integral_v<From> || std::is_same_v<From, Bool>);

template <class To, class From>
void convert_narrow(To* __restrict to, const From* __restrict from, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    if constexpr (std::is_same_v<From, Bool>) {
      to[i] = static_cast<To>(static_cast<int32_t>(from[i].bits != 0));
    } else {
      to[i] = static_cast<To>(static_cast<int32_t>(from[i]));
    }
  }
}

// AVX2 has instructions for int32 only. Most blocks of longer integers hold none that is longer than that.
template <class To, class From>
void convert_neighbours(To* __restrict to, const From* __restrict from, int64_t count) {
  if constexpr (sizeof(From) < 4 || std::is_same_v<From, int32_t>) {
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
