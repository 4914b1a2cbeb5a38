// What every CUDA entry does in this order: device guard, stream, launch, check.
#pragma once

#include <string>

#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace gpureduce {

// Makes the tensor's device current for its lifetime; free where it is already.
class DeviceScope {
 public:
  explicit DeviceScope(c10::Device device) {
    if (device.index() != c10::cuda::current_device()) guard_.set_device(device);
  }

 private:
  c10::cuda::OptionalCUDAGuard guard_;
};

inline at::Tensor empty_on(c10::Device device, c10::IntArrayRef sizes, c10::ScalarType type) {
  return at::detail::empty_cuda(sizes, type, device, std::nullopt);
}

// Throws torch's class for a launch that failed, with the op, the reason and, where there is one, the cure.
void check_launch(cudaError_t error, const char* op, c10::DeviceIndex device);

}  // namespace gpureduce
