#include <ATen/cuda/CUDAContext.h>

#include "cuda/launch.h"
#include "ops/backends.h"
#include "ops/cuda/launch_op.h"
#include "ops/kernel.h"
#include "reductions/kernel_traits.h"

namespace gpureduce {
namespace {

DeviceLimits limits_of(c10::DeviceIndex device) {
  const cudaDeviceProp* properties = at::cuda::getDeviceProperties(device);
  return make_device_limits(properties->multiProcessorCount, properties->major,
                            static_cast<int64_t>(properties->sharedMemPerBlockOptin));
}

template <class Op>
FinishArguments finish_with(const Problem& problem, const Request& request, const Plan& plan) {
  FinishArguments arguments = finish_of<Op>(problem, request);
  if constexpr (Op::kFinish == Finish::kVar || Op::kFinish == Finish::kStd) {
    arguments.leaf_elements = plan.order.leaf_elements * plan.rows_of_unit;
    arguments.per_leaf_element = 1 / static_cast<double>(arguments.leaf_elements);
  }
  return arguments;
}

struct CudaBackend {
  static constexpr bool kSymbolic = false;

  template <class Op>
  static Tensors<Op> run(const at::Tensor& self, const Request& request, DType dtype) {
    const c10::Device device = self.device();
    const DeviceScope scope(device);
    const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(device.index());
    Tensors<Op> results;
    for (int i = 0; i < Op::kNumOutputs; i++) {
      results[i] = empty_on(device, result_sizes(self.sizes(), request), request.results[i]);
    }
    const Problem problem = problem_of<Op>(self, request, dtype);
    if (problem.num_outputs == 0) return results;
    const KernelChoice choice = choose_kernel<Op>(dtype, request);
    const void* input = self.const_data_ptr();
    dispatch_group<Op>(choice.group, [&]<DTypeGroup Group>() {
      const DType kernel_dtype = Group == DTypeGroup::Converted ? choice.through : dtype;
      const Plan plan = make_plan(problem, kernel_traits<Op::template Reduction, Group>(kernel_dtype),
                                  limits_of(device.index()), reinterpret_cast<uint64_t>(input));
      TORCH_CHECK(plan.supported, "gpureduce::", Op::kName, "(): self: expected at most ", kMaxAxes,
                  " dims that do not merge, kept and reduced each, got more in strides ", self.strides());
      cuda::Workspace workspace;
      at::Tensor large_partials;
      if (plan.num_counters > 0) {
        check_launch(cuda::acquire_workspace(device.index(), stream, plan.num_counters, plan.partial_bytes, workspace),
                     Op::kName, device.index());
      }
      if (plan.partial_bytes > 0 && workspace.partials == nullptr) {
        large_partials = empty_on(device, static_cast<int64_t>(plan.partial_bytes), c10::ScalarType::Byte);
        workspace.partials = large_partials.mutable_data_ptr();
      }
      const cuda::Call call{.problem = problem,
                            .plan = plan,
                            .input = input,
                            .input_dtype = dtype,
                            .through = choice.through,
                            .outputs = outputs_of<Op>(results, request),
                            .finish = finish_with<Op>(problem, request, plan),
                            .workspace = workspace,
                            .stream = stream};
      check_launch(cuda::launch<Op::template Reduction, Group>(call), Op::kName, device.index());
    });
    return results;
  }
};

}  // namespace

void check_launch(cudaError_t error, const char* op, c10::DeviceIndex device) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // what is reported here must not be reported again by the next call
  const std::string at = std::string("gpureduce::") + op + "(): ";
  if (error == cudaErrorNoKernelImageForDevice) {
    const cudaDeviceProp* properties = at::cuda::getDeviceProperties(device);
    const std::string arch = c10::str(properties->major, ".", properties->minor);
    TORCH_CHECK(false, at, "this gpureduce has no kernels for ", properties->name, " (compute capability ", arch,
                "); rebuild it with TORCH_CUDA_ARCH_LIST=", arch);
  }
  TORCH_CHECK_WITH(OutOfMemoryError, error != cudaErrorMemoryAllocation, at,
                   "no memory left on cuda:", static_cast<int>(device), " for the workspace");
  TORCH_CHECK(false, at, "CUDA error: ", cudaGetErrorString(error));
}

void register_cuda(torch::Library& library) {
  register_kernels<CudaBackend>(library);
}

}  // namespace gpureduce
