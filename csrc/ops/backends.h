// Where schema.cpp finds the kernels of each dispatch key.
#pragma once

#include <torch/library.h>

namespace gpureduce {

void register_cpu(torch::Library& library);
void register_meta(torch::Library& library);
void register_cuda(torch::Library& library);  // in a library with CUDA kernels only

void define_explain(torch::Library& library);

}  // namespace gpureduce
