// What a call means: dims, result shape and dtypes, and every complaint about them. CPU, CUDA and Meta ask here.
#pragma once

#include <bitset>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/SymInt.h>
#include <c10/util/DimVector.h>
#include <c10/util/OptionalArrayRef.h>
#include <c10/util/SmallVector.h>

#include "core/dtype.h"
#include "core/problem.h"

namespace gpureduce {

using DimSet = std::bitset<kMaxDims>;

struct Request {
  const char* op;  // for messages
  DimSet reduced;
  bool keepdim;
  c10::ScalarType through;  // elements are converted to this first
  c10::ScalarType result;
};

std::optional<DType> to_dtype(c10::ScalarType type);

// The dims of a call as a set; None and [] are all. IndexError for a dim that is not there, RuntimeError for one twice.
DimSet resolve_dims(const char* op, at::OptionalIntArrayRef dims, int64_t num_dims);

// NotImplementedError for a dtype that the library or the op has no meaning for.
DType require_dtype(const char* op, const at::Tensor& self, bool real_only);

// The dtype that sum and its like convert elements to and return; `mean`: it must be floating or complex.
c10::ScalarType resolve_dtype(const char* op, c10::ScalarType self, std::optional<c10::ScalarType> dtype, bool mean);

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

// Complains where a reduction that has no identity would meet no element: IndexError, but RuntimeError for a value (and
// not an index) of the whole tensor, as torch has it.
void require_elements(const Request& request, c10::SymIntArrayRef sizes, bool dim_given, bool is_index);

}  // namespace gpureduce
