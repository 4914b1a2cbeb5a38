// The op gpureduce::sum_rung: the ladder's kernels on tensors.
#pragma once

#include <torch/library.h>

#include "core/dtype.h"
#include "ladder/rung.h"

namespace gpureduce {

void register_rung_cpu(torch::Library& library);
void register_rung_meta(torch::Library& library);
void register_rung_cuda(torch::Library& library);  // in a library with CUDA kernels only

// A rung's tensor, checked: elements side by side, and what they are summed in and returned as.
struct RungInput {
  Rung rung;
  at::Tensor elements;
  DType dtype;
  c10::ScalarType accumulator, result;
};
// ValueError for a name that is no rung, NotImplementedError for a dtype without rungs.
RungInput check_rung(const at::Tensor& self, c10::string_view name);

}  // namespace gpureduce
