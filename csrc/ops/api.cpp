// The C++ functions: the same road through the dispatcher that Python takes.
#include <ATen/core/dispatch/Dispatcher.h>

#include "gpureduce/gpureduce.h"

namespace gpureduce {
namespace {

template <class Function>
auto find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

using DimsDtype = at::Tensor(const at::Tensor&, at::OptionalIntArrayRef, bool, std::optional<at::ScalarType>);
using Dims = at::Tensor(const at::Tensor&, at::OptionalIntArrayRef, bool);
using Index = at::Tensor(const at::Tensor&, std::optional<int64_t>, bool);
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

at::Tensor amax(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim) {
  static const auto op = find<Dims>("gpureduce::amax");
  return op.call(self, dim, keepdim);
}

at::Tensor argmax(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  static const auto op = find<Index>("gpureduce::argmax");
  return op.call(self, dim, keepdim);
}

at::Tensor sum_rung(const at::Tensor& self, std::string_view rung) {
  static const auto op = find<Rung>("gpureduce::sum_rung");
  return op.call(self, rung);
}

}  // namespace gpureduce
