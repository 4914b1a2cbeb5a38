// What a call means: dims, result shape and dtypes, and every complaint about them. CPU, CUDA and Meta ask here.
#pragma once

#include <array>
#include <bitset>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>
#include <c10/core/SymInt.h>
#include <c10/util/DimVector.h>
#include <c10/util/OptionalArrayRef.h>
#include <c10/util/SmallVector.h>

#include "core/dtype.h"
#include "core/problem.h"
#include "reductions/reduction.h"

namespace gpureduce {

using DimSet = std::bitset<kMaxDims>;

using ResultTypes = std::array<c10::ScalarType, kMaxOutputs>;

struct Request {
  const char* op;  // for messages
  DimSet reduced;
  bool keepdim;
  c10::ScalarType through;  // elements are converted to this first
  ResultTypes results;
  double parameter = 0;  // of the finish
};

std::optional<DType> to_dtype(c10::ScalarType type);

// The dims of a call as a set; None and [] are all. IndexError for a dim that is not there, RuntimeError for one twice.
DimSet resolve_dims(const char* op, at::OptionalIntArrayRef dims, int64_t num_dims);

// NotImplementedError for a dtype that the library or the op has no meaning for.
enum class DTypeKinds : uint8_t { kAll, kReal, kFloats };
DType require_dtype(const char* op, const at::Tensor& self, DTypeKinds kinds);

// The dtype that elements are converted to, and that the result has or, of a norm, is the real part of.
enum class DTypeRule : uint8_t {
  kSum,        // any; int64 for integers and bool where none is asked for
  kLogSumExp,  // the input's; torch's default dtype for integers and bool
  kMean,       // floating point or complex
  kInexact,    // the same, and so must the input be
  kNorm,       // the same, of the input's kind and no narrower
};
c10::ScalarType resolve_dtype(const char* op, c10::ScalarType self, std::optional<c10::ScalarType> dtype,
                              DTypeRule rule);

// The order of a norm; RuntimeError for a complex one.
double resolve_order(const char* op, const c10::Scalar& order);

// What a variance takes off the number of elements, 1 by default; RuntimeError for a complex one.
double resolve_correction(const char* op, const std::optional<c10::Scalar>& correction);

// The result's sizes, int64_t or SymInt.
template <class Size>
c10::SmallVector<Size, c10::kDimVectorStaticSize> result_sizes(c10::ArrayRef<Size> sizes, const Request& request) {
  c10::SmallVector<Size, c10::kDimVectorStaticSize> result;
  for (size_t d = 0; d < sizes.size(); d++) {
    if (!request.reduced[d]) {
      result.push_back(sizes[d]);
    } else if (request.keepdim) {
      result.push_back(Size(1));
    }
  }
  return result;
}

// Complains where a reduction that has no identity would meet no element, with torch's classes: IndexError, but
// RuntimeError for a value (and not an index) of the whole tensor, and for every norm.
enum class EmptyRule : uint8_t { kValue, kIndex, kNorm };
void require_elements(const Request& request, c10::SymIntArrayRef sizes, bool dim_given, EmptyRule rule);

}  // namespace gpureduce
