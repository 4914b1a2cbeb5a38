// The C++ functions: the same road through the dispatcher that Python takes.
#include <ATen/core/dispatch/Dispatcher.h>

#include "gpureduce/gpureduce.h"

namespace gpureduce {
namespace {

template <class Function>
auto find(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).typed<Function>();
}

using Pair = std::tuple<at::Tensor, at::Tensor>;
using DimsDtype = at::Tensor(const at::Tensor&, at::OptionalIntArrayRef, bool, std::optional<at::ScalarType>);
using Dims = at::Tensor(const at::Tensor&, at::OptionalIntArrayRef, bool);
using DimsPair = Pair(const at::Tensor&, at::OptionalIntArrayRef, bool);
using Count = at::Tensor(const at::Tensor&, at::OptionalIntArrayRef);
using Index = at::Tensor(const at::Tensor&, std::optional<int64_t>, bool);
using Whole = at::Tensor(const at::Tensor&);
using AlongDim = Pair(const at::Tensor&, int64_t, bool);
using Norm = at::Tensor(const at::Tensor&, const at::Scalar&, at::OptionalIntArrayRef, bool,
                        std::optional<at::ScalarType>);
using Var = at::Tensor(const at::Tensor&, at::OptionalIntArrayRef, const std::optional<at::Scalar>&, bool);
using VarMean = Pair(const at::Tensor&, at::OptionalIntArrayRef, const std::optional<at::Scalar>&, bool);
using StatsOfDims = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor,
                               at::Tensor, at::Tensor, at::Tensor>(const at::Tensor&, at::OptionalIntArrayRef, bool);
using Rung = at::Tensor(const at::Tensor&, std::string_view);

}  // namespace

at::Tensor sum(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, std::optional<at::ScalarType> dtype) {
  static const auto op = find<DimsDtype>("gpureduce::sum");
  return op.call(self, dim, keepdim, dtype);
}

at::Tensor mean(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                std::optional<at::ScalarType> dtype) {
  static const auto op = find<DimsDtype>("gpureduce::mean");
  return op.call(self, dim, keepdim, dtype);
}

at::Tensor prod(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                std::optional<at::ScalarType> dtype) {
  static const auto op = find<DimsDtype>("gpureduce::prod");
  return op.call(self, dim, keepdim, dtype);
}

at::Tensor nansum(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                  std::optional<at::ScalarType> dtype) {
  static const auto op = find<DimsDtype>("gpureduce::nansum");
  return op.call(self, dim, keepdim, dtype);
}

at::Tensor nanmean(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                   std::optional<at::ScalarType> dtype) {
  static const auto op = find<DimsDtype>("gpureduce::nanmean");
  return op.call(self, dim, keepdim, dtype);
}

at::Tensor amax(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim) {
  static const auto op = find<Dims>("gpureduce::amax");
  return op.call(self, dim, keepdim);
}

at::Tensor amin(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim) {
  static const auto op = find<Dims>("gpureduce::amin");
  return op.call(self, dim, keepdim);
}

std::tuple<at::Tensor, at::Tensor> aminmax(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim) {
  static const auto op = find<DimsPair>("gpureduce::aminmax");
  return op.call(self, dim, keepdim);
}

at::Tensor max(const at::Tensor& self) {
  static const auto op = find<Whole>("gpureduce::max");
  return op.call(self);
}

std::tuple<at::Tensor, at::Tensor> max(const at::Tensor& self, int64_t dim, bool keepdim) {
  static const auto op = find<AlongDim>("gpureduce::max", "dim");
  return op.call(self, dim, keepdim);
}

at::Tensor min(const at::Tensor& self) {
  static const auto op = find<Whole>("gpureduce::min");
  return op.call(self);
}

std::tuple<at::Tensor, at::Tensor> min(const at::Tensor& self, int64_t dim, bool keepdim) {
  static const auto op = find<AlongDim>("gpureduce::min", "dim");
  return op.call(self, dim, keepdim);
}

at::Tensor argmax(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  static const auto op = find<Index>("gpureduce::argmax");
  return op.call(self, dim, keepdim);
}

at::Tensor argmin(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  static const auto op = find<Index>("gpureduce::argmin");
  return op.call(self, dim, keepdim);
}

at::Tensor any(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim) {
  static const auto op = find<Dims>("gpureduce::any");
  return op.call(self, dim, keepdim);
}

at::Tensor all(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim) {
  static const auto op = find<Dims>("gpureduce::all");
  return op.call(self, dim, keepdim);
}

at::Tensor count_nonzero(const at::Tensor& self, at::OptionalIntArrayRef dim) {
  static const auto op = find<Count>("gpureduce::count_nonzero");
  return op.call(self, dim);
}

at::Tensor norm(const at::Tensor& self, const at::Scalar& ord, at::OptionalIntArrayRef dim, bool keepdim,
                std::optional<at::ScalarType> dtype) {
  static const auto op = find<Norm>("gpureduce::norm");
  return op.call(self, ord, dim, keepdim, dtype);
}

at::Tensor var(const at::Tensor& self, at::OptionalIntArrayRef dim, const std::optional<at::Scalar>& correction,
               bool keepdim) {
  static const auto op = find<Var>("gpureduce::var");
  return op.call(self, dim, correction, keepdim);
}

at::Tensor std(const at::Tensor& self, at::OptionalIntArrayRef dim, const std::optional<at::Scalar>& correction,
               bool keepdim) {
  static const auto op = find<Var>("gpureduce::std");
  return op.call(self, dim, correction, keepdim);
}

std::tuple<at::Tensor, at::Tensor> var_mean(const at::Tensor& self, at::OptionalIntArrayRef dim,
                                            const std::optional<at::Scalar>& correction, bool keepdim) {
  static const auto op = find<VarMean>("gpureduce::var_mean");
  return op.call(self, dim, correction, keepdim);
}

std::tuple<at::Tensor, at::Tensor> std_mean(const at::Tensor& self, at::OptionalIntArrayRef dim,
                                            const std::optional<at::Scalar>& correction, bool keepdim) {
  static const auto op = find<VarMean>("gpureduce::std_mean");
  return op.call(self, dim, correction, keepdim);
}

at::Tensor logsumexp(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim) {
  static const auto op = find<Dims>("gpureduce::logsumexp");
  return op.call(self, dim, keepdim);
}

Stats stats(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim) {
  static const auto op = find<StatsOfDims>("gpureduce::stats");
  return std::make_from_tuple<Stats>(op.call(self, dim, keepdim));
}

at::Tensor sum_rung(const at::Tensor& self, std::string_view rung) {
  static const auto op = find<Rung>("gpureduce::sum_rung");
  return op.call(self, rung);
}

}  // namespace gpureduce
