// Loops compiled once for each instruction set, and the choice between them at run time.
#pragma once

#include <cstdint>

namespace gpureduce::cpu {

enum class Isa : uint8_t { kBaseline, kAvx2, kAvx512 };

#ifdef __x86_64__

// Each on a cache line of its own: how fast short loops are fetched is not to depend on what else is linked.
//
// Without fused multiply-adds, which no reduction wants: GCC 12 forms them of a complex product, where additions and
// subtractions alternate, though contraction is off (-ffp-contract=off).
template <class F>
[[gnu::target("avx2,f16c"), gnu::flatten, gnu::noinline, gnu::aligned(64)]] void run_on_avx2(F f) {
  f.template operator()<Isa::kAvx2>();
}

template <class F>
[[gnu::target("avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl"), gnu::flatten, gnu::noinline, gnu::aligned(64)]] void
run_on_avx512(F f) {
  f.template operator()<Isa::kAvx512>();
}

// Calls f.template operator()<kIsa>() with everything it calls inlined into a function for `isa`. Only that function is
// compiled for the instruction set: what f calls, an inline function of a header say, is compiled for the baseline
// wherever it stands alone, so the linker cannot pick a copy that the processor does not know. `kWide` false leaves
// AVX-512 out.
template <bool kWide, class F>
void run_on(Isa isa, F f) {
  if constexpr (kWide) {
    if (isa == Isa::kAvx512) return run_on_avx512(f);
  }
  if (isa != Isa::kBaseline) return run_on_avx2(f);
  f.template operator()<Isa::kBaseline>();
}

// Whether loops have all the forms that make them fast. Where wider sets are compiled, few processors are left to the
// baseline: it does with one form of each, which gives the same bits in half the time to compile.
template <Isa kIsa>
inline constexpr bool has_all_forms = kIsa != Isa::kBaseline;

// The widest set that the processor has.
inline Isa detect_isa() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c")) return Isa::kBaseline;
  const auto has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has_avx512 ? Isa::kAvx512 : Isa::kAvx2;
}

#else

template <bool kWide, class F>
void run_on(Isa, F f) {
  f.template operator()<Isa::kBaseline>();
}

template <Isa kIsa>
inline constexpr bool has_all_forms = true;

inline Isa detect_isa() {
  return Isa::kBaseline;
}

#endif

}  // namespace gpureduce::cpu
