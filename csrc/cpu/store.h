// Results rounded to the output's dtype. Compiled once for each type of result, whatever was reduced to it.
#pragma once

#include "core/dtype.h"
#include "cpu/isa.h"

namespace gpureduce::cpu {

template <class T>
bool is_dtype(DType dtype) {
  return dispatch(dtype, []<class Known>() { return std::is_same_v<Known, T>; });
}

// outputs[i * step] = results[i], an output being one of `dtype` that is rounded from a Result.
template <class Result>
void store(Isa isa, void* outputs, DType dtype, int64_t step, const Result* results, int64_t count);

}  // namespace gpureduce::cpu
