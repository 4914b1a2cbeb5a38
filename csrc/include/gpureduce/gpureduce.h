// gpureduce: reductions of torch tensors in one documented order, at the speed of memory.
//
// Every function goes through torch's dispatcher, as torch.ops.gpureduce.<name> does from Python: CPU and CUDA tensors,
// meta tensors for shapes, any sizes, strides and storage offset. Results are new contiguous tensors on the input's
// device; CUDA work is queued on the current stream. Nothing is differentiable: a backward through a result raises.
//
// Determinism: the order in which values are combined depends on the length of the reduction, the input's dtype and the
// function, and on nothing else, so that the same values give the same bits on every run, device, batch size, alignment
// and layout, on GPU and CPU (docs/order.md).
//
// `dim`: the dims to reduce, negative ones from the end; none or an empty list reduces all. `keepdim`: reduced dims
// stay with size 1. c10::IndexError: no such dim. c10::Error: the same dim twice, more than 64 dims.
// c10::NotImplementedError: a dtype or layout without meaning for the function.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/util/OptionalArrayRef.h>

#if defined(GPUREDUCE_EXPORTS)
#define GPUREDUCE_API __attribute__((visibility("default")))
#else
#define GPUREDUCE_API
#endif

namespace gpureduce {

// Sum of the elements. Result dtype: `dtype` if given (each element is converted to it first), else int64 for integers
// and bool, else the input's. float16, bfloat16 and float8 accumulate in float32 and round once; integers wrap modulo
// 2^64. The sum of no element is 0.
GPUREDUCE_API at::Tensor sum(const at::Tensor& self, at::OptionalIntArrayRef dim = std::nullopt, bool keepdim = false,
                             std::optional<at::ScalarType> dtype = std::nullopt);

// Sum divided by the number of elements, in the accumulator's type, rounded once. Result dtype: `dtype`, else the
// input's; it must be floating or complex (c10::Error otherwise). The mean of no element is NaN.
GPUREDUCE_API at::Tensor mean(const at::Tensor& self, at::OptionalIntArrayRef dim = std::nullopt, bool keepdim = false,
                              std::optional<at::ScalarType> dtype = std::nullopt);

// Largest element, in the input's dtype (real dtypes, bool included). NaN is larger than everything.
// c10::IndexError: a reduced dim has no element.
GPUREDUCE_API at::Tensor amax(const at::Tensor& self, at::OptionalIntArrayRef dim = std::nullopt, bool keepdim = false);

// int64 position of the largest element along `dim`, or in the row-major order of the whole tensor. Of equal elements
// (-0 and +0 are equal) the lowest position, and that of the first NaN if there is one.
// c10::IndexError: a reduced dim has no element.
GPUREDUCE_API at::Tensor argmax(const at::Tensor& self, std::optional<int64_t> dim = std::nullopt,
                                bool keepdim = false);

// Sum of all elements (real dtypes) by one rung of the teaching ladder: "serial", "v1", "v2", "v3_warp", "v3" or "sum"
// (docs/ladder.md). c10::ValueError: no such rung, or one that has no kernel for the tensor's device.
GPUREDUCE_API at::Tensor sum_rung(const at::Tensor& self, std::string_view rung);

}  // namespace gpureduce
