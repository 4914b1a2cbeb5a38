#include "ops/rung.h"

#include <ATen/ops/empty.h>

#include "gpureduce/gpureduce.h"
#include "ladder/serial.h"
#include "ops/request.h"

namespace gpureduce {
namespace {

constexpr const char* kName = "sum_rung";

c10::ScalarType accumulator_of(DType dtype) {
  return dispatch(dtype, [&]<class T>() {
    using Acc = Accumulator<T>;
    if constexpr (std::is_same_v<Acc, double>) return c10::ScalarType::Double;
    return std::is_same_v<Acc, float> ? c10::ScalarType::Float : c10::ScalarType::Long;
  });
}

at::Tensor rung_cpu(const at::Tensor& self, c10::string_view name) {
  const RungInput input = check_rung(self, name);
  if (input.rung == Rung::kSum) return sum(self);
  TORCH_CHECK_VALUE(input.rung == Rung::kSerial, "gpureduce::", kName,
                    "(): rung: expected serial or sum for a CPU "
                    "tensor, got ",
                    name, ", which is a CUDA kernel");
  const at::Tensor total = at::empty({}, self.options().dtype(input.accumulator));
  serial_sum(input.dtype, input.elements.const_data_ptr(), input.elements.numel(), total.mutable_data_ptr());
  return total.to(input.result);
}

at::Tensor rung_meta(const at::Tensor& self, c10::string_view name) {
  return at::empty({}, self.options().dtype(check_rung(self, name).result));
}

}  // namespace

RungInput check_rung(const at::Tensor& self, c10::string_view name) {
  const auto rung = parse_rung(std::string_view(name.data(), name.size()));
  TORCH_CHECK_VALUE(rung.has_value(), "gpureduce::", kName, "(): rung: expected one of ", rung_names(), ", got ", name);
  const DType dtype = require_dtype(kName, self, DTypeKinds::kReal);
  return {*rung, self.is_meta() ? self : self.contiguous(), dtype, accumulator_of(dtype),
          resolve_dtype(kName, self.scalar_type(), std::nullopt, DTypeRule::kSum)};
}

void register_rung_cpu(torch::Library& library) {
  library.impl(kName, TORCH_FN(rung_cpu));
}
void register_rung_meta(torch::Library& library) {
  library.impl(kName, TORCH_FN(rung_meta));
}

}  // namespace gpureduce
