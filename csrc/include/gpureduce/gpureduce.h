// gpureduce: reductions of torch tensors in one documented order, at the speed of memory.
//
// Every function goes through torch's dispatcher, as torch.ops.gpureduce.<name> does from Python: CPU and CUDA tensors,
// meta tensors for shapes, any sizes, strides and storage offset. Results are new contiguous tensors on the input's
// device; CUDA work is queued on the current stream. Nothing is differentiable: a backward through a result raises.
//
// Determinism: the order in which values are combined depends on the length of the reduction, the input's dtype and the
// function, and on nothing else, so that the same values give the same bits on every run, device, batch size, alignment
// and layout, on GPU and CPU (docs/order.md). Where exponentials and logarithms enter (logsumexp, norms of general
// order) CPU and GPU agree to 2 ulp of the accumulator.
//
// `dim`: the dims to reduce, negative ones from the end; none or an empty list reduces all. `keepdim`: reduced dims
// stay with size 1. c10::IndexError: no such dim. c10::Error: the same dim twice, more than 64 dims.
// c10::NotImplementedError: a dtype or layout without meaning for the function.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

#include <ATen/core/Scalar.h>
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

// Product of the elements, with the dtypes of sum. The product of no element is 1.
GPUREDUCE_API at::Tensor prod(const at::Tensor& self, at::OptionalIntArrayRef dim = std::nullopt, bool keepdim = false,
                              std::optional<at::ScalarType> dtype = std::nullopt);

// Sum and mean of the elements that are not NaN (a complex one is where either part is). Without a NaN nansum has the
// bits of sum. nanmean is of floating point and complex inputs only (c10::Error otherwise), and NaN where every element
// is or there is none.
GPUREDUCE_API at::Tensor nansum(const at::Tensor& self, at::OptionalIntArrayRef dim = std::nullopt,
                                bool keepdim = false, std::optional<at::ScalarType> dtype = std::nullopt);
GPUREDUCE_API at::Tensor nanmean(const at::Tensor& self, at::OptionalIntArrayRef dim = std::nullopt,
                                 bool keepdim = false, std::optional<at::ScalarType> dtype = std::nullopt);

// Largest and smallest element, in the input's dtype (real dtypes, bool included); aminmax gives (smallest, largest).
// NaN wins over every number; of -0 and +0, which are equal, +0 is the larger. c10::IndexError: a reduced dim has no
// element; c10::Error where no dim was given.
GPUREDUCE_API at::Tensor amax(const at::Tensor& self, at::OptionalIntArrayRef dim = std::nullopt, bool keepdim = false);
GPUREDUCE_API at::Tensor amin(const at::Tensor& self, at::OptionalIntArrayRef dim = std::nullopt, bool keepdim = false);
GPUREDUCE_API std::tuple<at::Tensor, at::Tensor> aminmax(const at::Tensor& self,
                                                         at::OptionalIntArrayRef dim = std::nullopt,
                                                         bool keepdim = false);

// Largest and smallest element of the whole tensor, or along `dim` with its int64 position: (values, indices). The
// position is that of argmax and argmin; a value that is zero is +0.
GPUREDUCE_API at::Tensor max(const at::Tensor& self);
GPUREDUCE_API std::tuple<at::Tensor, at::Tensor> max(const at::Tensor& self, int64_t dim, bool keepdim = false);
GPUREDUCE_API at::Tensor min(const at::Tensor& self);
GPUREDUCE_API std::tuple<at::Tensor, at::Tensor> min(const at::Tensor& self, int64_t dim, bool keepdim = false);

// int64 position of the largest or smallest element along `dim`, or in the row-major order of the whole tensor. Of
// equal elements (-0 and +0 are equal) the lowest position, and that of the first NaN if there is one. c10::IndexError:
// a reduced dim has no element.
GPUREDUCE_API at::Tensor argmax(const at::Tensor& self, std::optional<int64_t> dim = std::nullopt,
                                bool keepdim = false);
GPUREDUCE_API at::Tensor argmin(const at::Tensor& self, std::optional<int64_t> dim = std::nullopt,
                                bool keepdim = false);

// Whether any or all elements are not zero (NaN is not): bool, but uint8 for uint8. An empty list of dims reduces
// nothing; no `dim` reduces all. Of no element: false, true.
GPUREDUCE_API at::Tensor any(const at::Tensor& self, at::OptionalIntArrayRef dim = std::nullopt, bool keepdim = false);
GPUREDUCE_API at::Tensor all(const at::Tensor& self, at::OptionalIntArrayRef dim = std::nullopt, bool keepdim = false);

// Number of elements that are not zero, int64.
GPUREDUCE_API at::Tensor count_nonzero(const at::Tensor& self, at::OptionalIntArrayRef dim = std::nullopt);

// The vector norm of order `ord` of floating point and complex elements: for 0 the number that are not zero, for inf
// and -inf the largest and the smallest |x|, else (sum of |x|^ord)^(1/ord). Result dtype: the real one of `dtype`,
// which must hold every element and be complex where the input is (c10::Error otherwise), else the input's. It neither
// overflows nor underflows where the result is representable. c10::Error: no element, and an order that is negative or
// infinite.
GPUREDUCE_API at::Tensor norm(const at::Tensor& self, const at::Scalar& ord = 2,
                              at::OptionalIntArrayRef dim = std::nullopt, bool keepdim = false,
                              std::optional<at::ScalarType> dtype = std::nullopt);

// Variance and standard deviation of floating point and complex elements (c10::Error otherwise), with or without their
// mean: (var, mean), (std, mean). The sum of squared distances from the mean is divided by the number of elements less
// `correction`, which is 1 where none is given; by 0 where that is negative. Result dtypes: the input's, of the
// variance its real one. Of no element: NaN. Neither cancels where all elements are far from 0, nor overflows where the
// result is representable (of float64: where its square is).
GPUREDUCE_API at::Tensor var(const at::Tensor& self, at::OptionalIntArrayRef dim = std::nullopt,
                             const std::optional<at::Scalar>& correction = std::nullopt, bool keepdim = false);
GPUREDUCE_API at::Tensor std(const at::Tensor& self, at::OptionalIntArrayRef dim = std::nullopt,
                             const std::optional<at::Scalar>& correction = std::nullopt, bool keepdim = false);
GPUREDUCE_API std::tuple<at::Tensor, at::Tensor> var_mean(const at::Tensor& self,
                                                          at::OptionalIntArrayRef dim = std::nullopt,
                                                          const std::optional<at::Scalar>& correction = std::nullopt,
                                                          bool keepdim = false);
GPUREDUCE_API std::tuple<at::Tensor, at::Tensor> std_mean(const at::Tensor& self,
                                                          at::OptionalIntArrayRef dim = std::nullopt,
                                                          const std::optional<at::Scalar>& correction = std::nullopt,
                                                          bool keepdim = false);

// log(sum(exp(x))) of real elements, without overflow. Result dtype: the input's, torch's default dtype for integers
// and bool. Of no element, and of nothing but -inf: -inf. The same bits on every run, GPU, batch size, alignment and
// layout; a CPU may differ from a GPU by 2 ulp of the accumulator.
GPUREDUCE_API at::Tensor logsumexp(const at::Tensor& self, at::OptionalIntArrayRef dim = std::nullopt,
                                   bool keepdim = false);

// What is worth knowing of activations and gradients, of one reading: real floating point elements only. A NaN makes
// all but the counts NaN, as in sum, var, amin and amax; positions are those of argmin and argmax, among the reduced
// dims in row-major order. c10::IndexError: a reduced dim has no element; c10::Error where no dim was given.
struct Stats {
  at::Tensor count;             // of the elements: int64
  at::Tensor sum, mean, var;    // float32, of float64 input float64; the variance with a correction of 1
  at::Tensor min, max;          // the input's dtype
  at::Tensor argmin, argmax;    // int64
  at::Tensor num_nan, num_inf;  // int64
};
GPUREDUCE_API Stats stats(const at::Tensor& self, at::OptionalIntArrayRef dim = std::nullopt, bool keepdim = false);

// Sum of all elements (real dtypes) by one rung of the teaching ladder: "serial", "v1", "v2", "v3_warp", "v3" or "sum"
// (docs/ladder.md). c10::ValueError: no such rung, or one that has no kernel for the tensor's device.
GPUREDUCE_API at::Tensor sum_rung(const at::Tensor& self, std::string_view rung);

}  // namespace gpureduce
