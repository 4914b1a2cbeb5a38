// Every op, one line each. The build reads the lines below (CMakeLists.txt) and compiles the kernels of each reduction
// they name; ops/schema.cpp registers an operator for each.
#pragma once

#include <algorithm>
#include <string_view>

#include "reductions/arg_extremum.h"
#include "reductions/count_nonzero.h"
#include "reductions/exponential_sum.h"
#include "reductions/extremum.h"
#include "reductions/moments.h"
#include "reductions/nansum.h"
#include "reductions/norm.h"
#include "reductions/prod.h"
#include "reductions/stats.h"
#include "reductions/sum.h"

namespace gpureduce {

// The arguments, what an empty reduction does, and the results' dtypes.
enum class Signature : uint8_t {
  kDimsDtype,  // (self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None), int64 for integers
  kMean,       // the same, floating point or complex
  kNanMean,    // the same, of floating point and complex inputs only
  kDims,       // (self, int[1]? dim=None, bool keepdim=False), the input's dtype; elements are needed
  kTruth,      // the same, bool or uint8; without dims (dim=[]) nothing is reduced
  kCount,      // (self, int[1]? dim=None), int64
  kIndex,      // (self, int? dim=None, bool keepdim=False), int64 positions; elements are needed
  kWhole,      // (self), the input's dtype; elements are needed
  kAlongDim,   // (self, int dim, bool keepdim=False), values and int64 positions; elements are needed
  kNorm,       // (self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None), real
  kVar,        // (self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False), real, and the mean
  kLogSumExp,  // (self, int[1]? dim=None, bool keepdim=False), floating point, also of integers
  kStats,      // the same arguments, of floating point inputs; elements are needed
};

template <std::size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&literal)[N]) { std::copy_n(literal, N, text); }
};

// kOpOutputs of the reduction's results are the op's, from number kOpFirst on.
template <Name kOpName, Signature kOpSignature, template <class Element> class OpReduction,
          Finish kOpFinish = Finish::kValue, int kOpOutputs = 1, int kOpFirst = 0>
struct Op {
  static constexpr const char* kName = kOpName.text;
  static constexpr Signature kSignature = kOpSignature;
  static constexpr Finish kFinish = kOpFinish;
  static constexpr int kNumOutputs = kOpOutputs, kFirstOutput = kOpFirst;
  template <class Element>
  using Reduction = OpReduction<Element>;
};

using Registry = std::tuple<
    // clang-format off: one op a line
    Op<"sum", Signature::kDimsDtype, Sum>,
    Op<"mean", Signature::kMean, Sum, Finish::kMean>,
    Op<"prod", Signature::kDimsDtype, Prod>,
    Op<"nansum", Signature::kDimsDtype, Nansum>,
    Op<"nanmean", Signature::kNanMean, Nanmean>,
    Op<"amax", Signature::kDims, Amax>,
    Op<"amin", Signature::kDims, Amin>,
    Op<"aminmax", Signature::kDims, Aminmax, Finish::kValue, 2>,
    Op<"max", Signature::kWhole, Amax>,
    Op<"min", Signature::kWhole, Amin>,
    Op<"max.dim", Signature::kAlongDim, Argmax, Finish::kValue, 2>,
    Op<"min.dim", Signature::kAlongDim, Argmin, Finish::kValue, 2>,
    Op<"argmax", Signature::kIndex, Argmax, Finish::kValue, 1, 1>,
    Op<"argmin", Signature::kIndex, Argmin, Finish::kValue, 1, 1>,
    Op<"any", Signature::kTruth, CountNonzero, Finish::kAny>,
    Op<"all", Signature::kTruth, CountNonzero, Finish::kAll>,
    Op<"count_nonzero", Signature::kCount, CountNonzero>,
    Op<"norm", Signature::kNorm, SquareSum>,
    Op<"var", Signature::kVar, Moments, Finish::kVar>,
    Op<"std", Signature::kVar, Moments, Finish::kStd>,
    Op<"var_mean", Signature::kVar, Moments, Finish::kVar, 2>,
    Op<"std_mean", Signature::kVar, Moments, Finish::kStd, 2>,
    Op<"logsumexp", Signature::kLogSumExp, LogSumExp>,
    Op<"stats", Signature::kStats, Statistics, Finish::kVar, 10>
    // clang-format on
    >;

// What serves some calls of an op in place of the reduction above: sums in integers, which have no NaN, and the other
// orders of a norm.
using NansumOfIntegers = Op<"nansum", Signature::kDimsDtype, Sum>;
using NormOfOrder0 = Op<"norm", Signature::kNorm, CountNonzero>;
using NormOfOrder1 = Op<"norm", Signature::kNorm, AbsSum>;
using NormOfOrderInf = Op<"norm", Signature::kNorm, AbsMinmax>;
using NormOfOrderP = Op<"norm", Signature::kNorm, PowerSum>;

}  // namespace gpureduce
