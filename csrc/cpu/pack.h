// Vectors as functions of one instruction set, for what the compiler makes no good vectors of by itself.
#pragma once

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <array>
#include <cstring>

#include "core/elements.h"
#include "cpu/isa.h"

namespace gpureduce::cpu {

// Numbers that are summed side by side.
template <class Acc>
struct alignas(32) Pack {
  static constexpr int kSize = 32 / sizeof(Acc);
  std::array<Acc, kSize> values;
};

#ifdef __x86_64__

// All of these are inlined into what run_on() calls; none may stand in a function for the baseline.
namespace avx2 {

[[gnu::target("avx2")]] inline void load(Pack<float>& pack, const float* from) {
  _mm256_store_ps(pack.values.data(), _mm256_loadu_ps(from));
}
[[gnu::target("avx2")]] inline void load(Pack<double>& pack, const double* from) {
  _mm256_store_pd(pack.values.data(), _mm256_loadu_pd(from));
}
[[gnu::target("avx2,f16c")]] inline void load(Pack<float>& pack, const Half* from) {
  _mm256_store_ps(pack.values.data(), _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
[[gnu::target("avx2")]] inline void load(Pack<float>& pack, const BFloat16* from) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  _mm256_store_ps(pack.values.data(), _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16)));
}
[[gnu::target("avx2")]] inline void load_even_and_odd(Pack<float>& even, Pack<float>& odd, const BFloat16* from) {
  const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  _mm256_store_ps(even.values.data(), _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)));
  _mm256_store_ps(odd.values.data(), _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-65536))));
}
[[gnu::target("avx2")]] inline void add(Pack<float>& sum, const Pack<float>& other) {
  _mm256_store_ps(sum.values.data(),
                  _mm256_add_ps(_mm256_load_ps(sum.values.data()), _mm256_load_ps(other.values.data())));
}
[[gnu::target("avx2")]] inline void add(Pack<double>& sum, const Pack<double>& other) {
  _mm256_store_pd(sum.values.data(),
                  _mm256_add_pd(_mm256_load_pd(sum.values.data()), _mm256_load_pd(other.values.data())));
}

}  // namespace avx2

template <Isa kIsa>
inline constexpr bool has_avx2 = kIsa != Isa::kBaseline;

#else

// Named where they are not called.
namespace avx2 {
template <class... Arguments>
void load(Arguments&&...);
template <class... Arguments>
void load_even_and_odd(Arguments&&...);
template <class... Arguments>
void add(Arguments&&...);
}  // namespace avx2
template <Isa kIsa>
inline constexpr bool has_avx2 = false;

#endif

}  // namespace gpureduce::cpu
