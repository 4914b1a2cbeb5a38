#include "ops/rung.h"

#include "gpureduce/gpureduce.h"
#include "ladder/ladder.h"
#include "ops/cuda/launch_op.h"

namespace gpureduce {
namespace {

at::Tensor rung_cuda(const at::Tensor& self, c10::string_view name) {
  const RungInput input = check_rung(self, name);
  if (input.rung == Rung::kSum) return sum(self);
  // The loop is the CPU's, so the elements go there; the benchmark times it on a CPU tensor, without the way.
  if (input.rung == Rung::kSerial) return sum_rung(self.cpu(), name).to(self.device());

  const c10::Device device = self.device();
  const DeviceScope scope(device);
  const int64_t length = input.elements.numel();
  const auto scratch_bytes = static_cast<int64_t>(rung_scratch_bytes(input.rung, input.dtype, length));
  const at::Tensor partials_a = empty_on(device, scratch_bytes, c10::ScalarType::Byte);
  const at::Tensor partials_b = empty_on(device, scratch_bytes, c10::ScalarType::Byte);
  const at::Tensor total = empty_on(device, {}, input.accumulator);
  check_launch(launch_rung(input.rung, input.dtype, input.elements.const_data_ptr(), length,
                           partials_a.mutable_data_ptr(), partials_b.mutable_data_ptr(), total.mutable_data_ptr(),
                           c10::cuda::getCurrentCUDAStream(device.index())),
               "sum_rung", device.index());
  return total.to(input.result);
}

}  // namespace

void register_rung_cuda(torch::Library& library) {
  library.impl("sum_rung", TORCH_FN(rung_cuda));
}

}  // namespace gpureduce
