// Every op, one line each. The build reads the lines below (CMakeLists.txt) and compiles the kernels of each reduction
// they name; ops/schema.cpp registers an operator for each.
#pragma once

#include <algorithm>
#include <string_view>
#include <tuple>

#include "reductions/amax.h"
#include "reductions/argmax.h"
#include "reductions/sum.h"

namespace gpureduce {

enum class Signature : uint8_t {
  kDimsDtype,  // (self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)
  kDims,       // (self, int[1]? dim=None, bool keepdim=False), the result in the input's dtype
  kIndex,      // (self, int? dim=None, bool keepdim=False), int64 positions
};

enum class Finish : uint8_t {
  kValue,
  kDivideByCount,
};

template <std::size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&literal)[N]) { std::copy_n(literal, N, text); }
};

template <Name kOpName, Signature kOpSignature, template <class Element> class OpReduction,
          Finish kOpFinish = Finish::kValue>
struct Op {
  static constexpr const char* kName = kOpName.text;
  static constexpr Signature kSignature = kOpSignature;
  static constexpr Finish kFinish = kOpFinish;
  template <class Element>
  using Reduction = OpReduction<Element>;
};

using Registry = std::tuple<
    // clang-format off: one op a line
    Op<"sum", Signature::kDimsDtype, Sum>,
    Op<"mean", Signature::kDimsDtype, Sum, Finish::kDivideByCount>,
    Op<"amax", Signature::kDims, Amax>,
    Op<"argmax", Signature::kIndex, Argmax>
    // clang-format on
    >;

}  // namespace gpureduce
