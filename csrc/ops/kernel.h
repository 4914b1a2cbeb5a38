// The kernels of every op on one backend: a function for each signature, and their registration.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <torch/library.h>

#include "ops/request.h"
#include "reductions/registry.h"

namespace gpureduce {

template <class Op>
using Tensors = std::array<at::Tensor, Op::kNumOutputs>;

// A backend offers
//   template <class Op> static Tensors<Op> run(const at::Tensor& self, const Request& request, DType dtype);
template <class Backend, class Op>
struct Kernel {
  using Dims = at::OptionalIntArrayRef;
  static constexpr bool kRealOnly = !Op::template Reduction<Complex<float>>::kMeaningful;
  static constexpr DTypeKinds kKinds = Op::kSignature == Signature::kStats ? DTypeKinds::kFloats
                                       : kRealOnly                         ? DTypeKinds::kReal
                                                                           : DTypeKinds::kAll;

  static at::Tensor dims_dtype(const at::Tensor& self, Dims dim, bool keepdim, std::optional<c10::ScalarType> dtype) {
    const auto reduce = [&](const at::Tensor& input, bool keep) {
      constexpr DTypeRule rule = Op::kSignature == Signature::kMean      ? DTypeRule::kMean
                                 : Op::kSignature == Signature::kNanMean ? DTypeRule::kInexact
                                                                         : DTypeRule::kSum;
      const DType element = require_dtype(Op::kName, input, kKinds);
      const DimSet reduced = resolve_dims(Op::kName, dim, input.dim());
      const c10::ScalarType result = resolve_dtype(Op::kName, input.scalar_type(), dtype, rule);
      TORCH_CHECK_NOT_IMPLEMENTED(!kRealOnly || !c10::isComplexType(result), "gpureduce::", Op::kName,
                                  "(): dtype: expected a real dtype, got ", result);
      const Request request{Op::kName, reduced, keep, result, {result}};
      if constexpr (std::is_same_v<typename Op::template Reduction<float>, Nansum<float>>) {
        if (c10::isIntegralType(result, /*includeBool=*/true)) {
          return Backend::template run<NansumOfIntegers>(input, request, element);
        }
      }
      return Backend::template run<Op>(input, request, element);
    };
    return with_few_dims(self, dim, keepdim, reduce)[0];
  }

  static auto dims(const at::Tensor& self, Dims dim, bool keepdim) {
    return unpack(choose(self, dim, keepdim, {self.scalar_type(), self.scalar_type()}));
  }
  static at::Tensor index(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim) {
    return choose(self, dim ? Dims(*dim) : Dims(), keepdim, {c10::ScalarType::Long})[0];
  }
  static at::Tensor whole(const at::Tensor& self) { return choose(self, std::nullopt, false, {self.scalar_type()})[0]; }
  static auto along_dim(const at::Tensor& self, int64_t dim, bool keepdim) {
    return unpack(choose(self, dim, keepdim, {self.scalar_type(), c10::ScalarType::Long}));
  }
  static auto stats(const at::Tensor& self, Dims dim, bool keepdim) {
    constexpr auto kIndex = c10::ScalarType::Long;
    const c10::ScalarType value = self.scalar_type();
    const c10::ScalarType sum = value == c10::ScalarType::Double ? value : c10::ScalarType::Float;
    return unpack(choose(self, dim, keepdim, {kIndex, sum, sum, sum, value, value, kIndex, kIndex, kIndex, kIndex},
                         /*parameter=*/1));
  }

  static at::Tensor truth(const at::Tensor& self, Dims dim, bool keepdim) {
    const bool is_byte = self.scalar_type() == c10::ScalarType::Byte;
    return count_with(self, dim, keepdim, is_byte ? c10::ScalarType::Byte : c10::ScalarType::Bool);
  }
  static at::Tensor count(const at::Tensor& self, Dims dim) {
    return count_with(self, dim, false, c10::ScalarType::Long);
  }

  static at::Tensor norm(const at::Tensor& self, const at::Scalar& order, Dims dim, bool keepdim,
                         std::optional<c10::ScalarType> dtype) {
    const auto reduce = [&](const at::Tensor& input, bool keep) {
      const DType element = require_dtype(Op::kName, input, kKinds);
      const c10::ScalarType through = resolve_dtype(Op::kName, input.scalar_type(), dtype, DTypeRule::kNorm);
      const double p = resolve_order(Op::kName, order);
      const DimSet reduced = resolve_dims(Op::kName, dim, input.dim());
      const Request request{Op::kName, reduced, keep, through, {c10::toRealValueType(through)}, p};
      if (p < 0 || std::isinf(p)) {
        require_elements(request, input.sym_sizes(), !reduces_all(dim), EmptyRule::kNorm);
        if (std::isinf(p)) return Backend::template run<NormOfOrderInf>(input, request, element);
      }
      if (p == 0) return Backend::template run<NormOfOrder0>(input, request, element);
      if (p == 1) return Backend::template run<NormOfOrder1>(input, request, element);
      if (p == 2) return Backend::template run<Op>(input, request, element);
      return Backend::template run<NormOfOrderP>(input, request, element);
    };
    return with_few_dims(self, dim, keepdim, reduce)[0];
  }

  static auto var(const at::Tensor& self, Dims dim, const std::optional<at::Scalar>& correction, bool keepdim) {
    return unpack(with_few_dims(self, dim, keepdim, [&](const at::Tensor& input, bool keep) {
      const DType element = require_dtype(Op::kName, input, kKinds);
      const c10::ScalarType type = resolve_dtype(Op::kName, input.scalar_type(), {}, DTypeRule::kInexact);
      const DimSet reduced = resolve_dims(Op::kName, dim, input.dim());
      const Request request{Op::kName,
                            reduced,
                            keep,
                            type,
                            {c10::toRealValueType(type), type},
                            resolve_correction(Op::kName, correction)};
      return Backend::template run<Op>(input, request, element);
    }));
  }

  static at::Tensor logsumexp(const at::Tensor& self, Dims dim, bool keepdim) {
    return with_few_dims(self, dim, keepdim, [&](const at::Tensor& input, bool keep) {
      const DType element = require_dtype(Op::kName, input, kKinds);
      const c10::ScalarType type = resolve_dtype(Op::kName, input.scalar_type(), {}, DTypeRule::kLogSumExp);
      const DimSet reduced = resolve_dims(Op::kName, dim, input.dim());
      return Backend::template run<Op>(input, {Op::kName, reduced, keep, type, {type}}, element);
    })[0];
  }

 private:
  static bool reduces_all(Dims dim) { return !dim.has_value() || dim->empty(); }
  // As the op returns them.
  static auto unpack(Tensors<Op> results) {
    if constexpr (Op::kNumOutputs == 1) {
      return std::move(results[0]);
    } else {
      return std::apply([](auto&... each) { return std::make_tuple(std::move(each)...); }, results);
    }
  }

  // reduce(input, keepdim), where the whole of a tensor with more dims than a DimSet holds goes without those of
  // size 1.
  template <class Reduce>
  static Tensors<Op> with_few_dims(const at::Tensor& self, Dims dim, bool keepdim, Reduce reduce) {
    if (self.dim() <= kMaxDims || !reduces_all(dim)) return reduce(self, keepdim);
    const auto sizes = self.sym_sizes();
    const at::Tensor squeezed =
        std::any_of(sizes.begin(), sizes.end(),
                    [](const c10::SymInt& size) { return TORCH_GUARD_OR_FALSE(size.sym_eq(1)); })
            ? self.squeeze()
            : self;
    Tensors<Op> results = reduce(squeezed, false);
    if (keepdim) {
      for (at::Tensor& result : results) result = result.view(std::vector<int64_t>(self.dim(), 1));
    }
    return results;
  }

  // What chooses an element, and so needs one.
  static Tensors<Op> choose(const at::Tensor& self, Dims dim, bool keepdim, const ResultTypes& types,
                            double parameter = 0) {
    return with_few_dims(self, dim, keepdim, [&](const at::Tensor& input, bool keep) {
      const DType element = require_dtype(Op::kName, input, kKinds);
      const DimSet reduced = resolve_dims(Op::kName, dim, input.dim());
      const Request request{Op::kName, reduced, keep, input.scalar_type(), types, parameter};
      // An input with elements, which is the rule, has them along every dim.
      if (Backend::kSymbolic || input.numel() == 0) {
        require_elements(request, input.sym_sizes(), !reduces_all(dim),
                         Op::kSignature == Signature::kIndex ? EmptyRule::kIndex : EmptyRule::kValue);
      }
      return Backend::template run<Op>(input, request, element);
    });
  }

  static at::Tensor count_with(const at::Tensor& self, Dims dim, bool keepdim, c10::ScalarType type) {
    const bool nothing = Op::kSignature == Signature::kTruth && dim.has_value() && dim->empty();
    const auto reduce = [&](const at::Tensor& input, bool keep) {
      const DType element = require_dtype(Op::kName, input, kKinds);
      DimSet reduced = resolve_dims(Op::kName, dim, input.dim());
      if (nothing) reduced.reset();
      return Backend::template run<Op>(input, {Op::kName, reduced, keep, input.scalar_type(), {type}}, element);
    };
    return nothing ? reduce(self, keepdim)[0] : with_few_dims(self, dim, keepdim, reduce)[0];
  }
};

template <class Backend>
void register_kernels(torch::Library& library) {
  const auto add = [&]<class Op>() {
    using K = Kernel<Backend, Op>;
    constexpr Signature signature = Op::kSignature;
    if constexpr (signature == Signature::kDims) {
      library.impl(Op::kName, TORCH_FN(K::dims));
    } else if constexpr (signature == Signature::kTruth) {
      library.impl(Op::kName, TORCH_FN(K::truth));
    } else if constexpr (signature == Signature::kCount) {
      library.impl(Op::kName, TORCH_FN(K::count));
    } else if constexpr (signature == Signature::kIndex) {
      library.impl(Op::kName, TORCH_FN(K::index));
    } else if constexpr (signature == Signature::kWhole) {
      library.impl(Op::kName, TORCH_FN(K::whole));
    } else if constexpr (signature == Signature::kAlongDim) {
      library.impl(Op::kName, TORCH_FN(K::along_dim));
    } else if constexpr (signature == Signature::kNorm) {
      library.impl(Op::kName, TORCH_FN(K::norm));
    } else if constexpr (signature == Signature::kVar) {
      library.impl(Op::kName, TORCH_FN(K::var));
    } else if constexpr (signature == Signature::kLogSumExp) {
      library.impl(Op::kName, TORCH_FN(K::logsumexp));
    } else if constexpr (signature == Signature::kStats) {
      library.impl(Op::kName, TORCH_FN(K::stats));
    } else {
      library.impl(Op::kName, TORCH_FN(K::dims_dtype));
    }
  };
  [&]<class... Ops>(std::tuple<Ops...>*) { (add.template operator()<Ops>(), ...); }(static_cast<Registry*>(nullptr));
}

// Strides and sizes of `self` as a problem.
template <class Op>
Problem problem_of(const at::Tensor& self, const Request& request, DType dtype) {
  return make_problem(static_cast<int>(self.dim()), self.sizes().data(), self.strides().data(), request.reduced,
                      size_of(dtype), is_indexed<typename Op::template Reduction<float>>());
}

// The group of kernels that serves a call, and the dtype its elements are read through.
struct KernelChoice {
  DTypeGroup group;
  DType through;
};
template <class Op>
KernelChoice choose_kernel(DType input, const Request& request) {
  const DType through = *to_dtype(request.through);
  const bool converted = Op::template Reduction<float>::kConverts && !sums_as_is(input, through);
  return {converted ? DTypeGroup::Converted : group_of(input), through};
}

template <class Op>
Outputs outputs_of(const Tensors<Op>& results, const Request& request) {
  Outputs outputs;
  for (int i = 0; i < Op::kNumOutputs; i++) {
    outputs[Op::kFirstOutput + i] = {results[i].mutable_data_ptr(), *to_dtype(request.results[i])};
  }
  return outputs;
}

template <class Op>
FinishArguments finish_of(const Problem& problem, const Request& request) {
  FinishArguments arguments{problem.length, Op::kFinish, request.parameter, 1 / static_cast<double>(problem.length)};
  if constexpr (Op::kFinish == Finish::kVar || Op::kFinish == Finish::kStd) {
    const double freedom = static_cast<double>(problem.length) - request.parameter;
    arguments.parameter = 1 / (freedom > 0 ? freedom : 0);
  }
  return arguments;
}

// Calls f.template operator()<Group>() for a group of dtypes that the op's reduction has kernels for.
template <class Op, class F>
void dispatch_group(DTypeGroup group, F&& f) {
  const auto call = [&]<DTypeGroup... Groups>() {
    const auto call_one = [&]<DTypeGroup Group>() {
      if constexpr (has_kernels<Op::template Reduction, Group>()) {
        if (group == Group) f.template operator()<Group>();
      }
    };
    (call_one.template operator()<Groups>(), ...);
  };
  call.template
  operator()<DTypeGroup::Float16s, DTypeGroup::Float8s, DTypeGroup::Floats, DTypeGroup::Int8s, DTypeGroup::Int16s,
             DTypeGroup::Int32s, DTypeGroup::Int64s, DTypeGroup::Complexes, DTypeGroup::Converted>();
}

}  // namespace gpureduce
