// The kernels of every op on one backend: a function for each signature, and their registration.
#pragma once

#include <algorithm>
#include <vector>

#include <torch/library.h>

#include "ops/request.h"
#include "reductions/registry.h"

namespace gpureduce {

// A backend offers
//   template <class Op> static at::Tensor run(const at::Tensor& self, const Request& request, DType dtype);
template <class Backend, class Op>
struct Kernel {
  static constexpr bool kRealOnly = !Op::template Reduction<Complex<float>>::kMeaningful;

  static at::Tensor dims_dtype(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                               std::optional<c10::ScalarType> dtype) {
    if (has_dims_to_spare(self) && reduces_all(dim)) {
      return restore_dims(dims_dtype(self.squeeze(), dim, false, dtype), self, keepdim);
    }
    const DType input = require_dtype(Op::kName, self, kRealOnly);
    const DimSet reduced = resolve_dims(Op::kName, dim, self.dim());
    const c10::ScalarType result =
        resolve_dtype(Op::kName, self.scalar_type(), dtype, Op::kFinish == Finish::kDivideByCount);
    TORCH_CHECK_NOT_IMPLEMENTED(!kRealOnly || !c10::isComplexType(result), "gpureduce::", Op::kName,
                                "(): dtype: expected a real dtype, got ", result);
    return Backend::template run<Op>(self, {Op::kName, reduced, keepdim, result, result}, input);
  }

  static at::Tensor dims(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim) {
    return ordered(self, dim, keepdim, self.scalar_type());
  }

  static at::Tensor index(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim) {
    return ordered(self, dim ? at::OptionalIntArrayRef(*dim) : at::OptionalIntArrayRef(), keepdim,
                   c10::ScalarType::Long);
  }

 private:
  static bool reduces_all(at::OptionalIntArrayRef dim) { return !dim.has_value() || dim->empty(); }

  // The whole of a tensor with more dims than a DimSet holds is reduced without those of size 1.
  static bool has_dims_to_spare(const at::Tensor& self) {
    if (self.dim() <= kMaxDims) return false;
    const auto sizes = self.sym_sizes();
    return std::any_of(sizes.begin(), sizes.end(),
                       [](const c10::SymInt& size) { return TORCH_GUARD_OR_FALSE(size.sym_eq(1)); });
  }
  static at::Tensor restore_dims(const at::Tensor& result, const at::Tensor& self, bool keepdim) {
    return keepdim ? result.view(std::vector<int64_t>(self.dim(), 1)) : result;
  }

  static at::Tensor ordered(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, c10::ScalarType result) {
    if (has_dims_to_spare(self) && reduces_all(dim)) {
      return restore_dims(ordered(self.squeeze(), dim, false, result), self, keepdim);
    }
    const DType input = require_dtype(Op::kName, self, kRealOnly);
    const Request request{Op::kName, resolve_dims(Op::kName, dim, self.dim()), keepdim, self.scalar_type(), result};
    // An input with elements, which is the rule, has them along every dim.
    if (Backend::kSymbolic || self.numel() == 0) {
      require_elements(request, self.sym_sizes(), !reduces_all(dim), Op::kSignature == Signature::kIndex);
    }
    return Backend::template run<Op>(self, request, input);
  }
};

template <class Backend>
void register_kernels(torch::Library& library) {
  const auto add = [&]<class Op>() {
    using K = Kernel<Backend, Op>;
    if constexpr (Op::kSignature == Signature::kDimsDtype) library.impl(Op::kName, TORCH_FN(K::dims_dtype));
    if constexpr (Op::kSignature == Signature::kDims) library.impl(Op::kName, TORCH_FN(K::dims));
    if constexpr (Op::kSignature == Signature::kIndex) library.impl(Op::kName, TORCH_FN(K::index));
  };
  [&]<class... Ops>(std::tuple<Ops...>*) { (add.template operator()<Ops>(), ...); }(static_cast<Registry*>(nullptr));
}

// Strides and sizes of `self` as a problem; `indexed` reductions report positions.
inline Problem problem_of(const at::Tensor& self, const Request& request, DType dtype, bool indexed) {
  return make_problem(static_cast<int>(self.dim()), self.sizes().data(), self.strides().data(), request.reduced,
                      size_of(dtype), indexed);
}

// The group of kernels that serves a call, and the dtype its elements are read through.
struct KernelChoice {
  DTypeGroup group;
  DType through;
};
inline KernelChoice choose_kernel(DType input, const Request& request, bool converts) {
  const DType through = *to_dtype(request.through);
  const bool converted = converts && !sums_as_is(input, through);
  return {converted ? DTypeGroup::Converted : group_of(input), through};
}

// Calls f.template operator()<Group>().
template <class F>
auto dispatch_group(DTypeGroup group, F&& f) {
  switch (group) {
    case DTypeGroup::Float16s:
      return f.template operator()<DTypeGroup::Float16s>();
    case DTypeGroup::Float8s:
      return f.template operator()<DTypeGroup::Float8s>();
    case DTypeGroup::Floats:
      return f.template operator()<DTypeGroup::Floats>();
    case DTypeGroup::Int8s:
      return f.template operator()<DTypeGroup::Int8s>();
    case DTypeGroup::Int16s:
      return f.template operator()<DTypeGroup::Int16s>();
    case DTypeGroup::Int32s:
      return f.template operator()<DTypeGroup::Int32s>();
    case DTypeGroup::Int64s:
      return f.template operator()<DTypeGroup::Int64s>();
    case DTypeGroup::Complexes:
      return f.template operator()<DTypeGroup::Complexes>();
    case DTypeGroup::Converted:
      break;
  }
  return f.template operator()<DTypeGroup::Converted>();
}

template <class Op>
double divisor_of(const Problem& problem) {
  return Op::kFinish == Finish::kDivideByCount ? static_cast<double>(problem.length) : 1.0;
}

}  // namespace gpureduce
