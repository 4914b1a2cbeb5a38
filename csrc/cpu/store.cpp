#include "cpu/store.h"

#include "reductions/reduction.h"

namespace gpureduce::cpu {

template <class Result>
void store(Isa isa, void* outputs, DType dtype, int64_t step, const Result* results, int64_t count) {
  dispatch(dtype, [&]<class Out>() {
    if constexpr (is_rounded_from<Out, Result> || is_rounded_from_count<Out, Result>) {
      run_on<false>(isa, [=]<Isa kIsa>() {
        Out* __restrict to = static_cast<Out*>(outputs);
        for (int64_t i = 0; i < count; i++) to[i * step] = to_element<Out>(results[i]);
      });
    }
  });
}

template void store(Isa, void*, DType, int64_t, const float*, int64_t);
template void store(Isa, void*, DType, int64_t, const double*, int64_t);
template void store(Isa, void*, DType, int64_t, const int32_t*, int64_t);
template void store(Isa, void*, DType, int64_t, const uint32_t*, int64_t);
template void store(Isa, void*, DType, int64_t, const int64_t*, int64_t);
template void store(Isa, void*, DType, int64_t, const uint64_t*, int64_t);
template void store(Isa, void*, DType, int64_t, const Complex<float>*, int64_t);
template void store(Isa, void*, DType, int64_t, const Complex<double>*, int64_t);

}  // namespace gpureduce::cpu
