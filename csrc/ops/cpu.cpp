#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include "cpu/run.h"
#include "ops/backends.h"
#include "ops/kernel.h"

namespace gpureduce {
namespace {

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= grain) {
    body(0, count);
  } else {
    at::parallel_for(0, count, grain, body);
  }
}

// The widest set that the processor has and torch itself uses: ATEN_CPU_CAPABILITY limits both.
cpu::Isa choose_isa() {
  static const cpu::Isa isa = [] {
    const std::string capability = at::get_cpu_capability();
    if (capability == "AVX512") return cpu::detect_isa();
    return capability == "AVX2" ? std::min(cpu::Isa::kAvx2, cpu::detect_isa()) : cpu::Isa::kBaseline;
  }();
  return isa;
}

struct CpuBackend {
  static constexpr bool kSymbolic = false;

  template <class Op>
  static Tensors<Op> run(const at::Tensor& self, const Request& request, DType dtype) {
    Tensors<Op> results;
    for (int i = 0; i < Op::kNumOutputs; i++) {
      results[i] = at::Tensor(at::detail::empty_cpu(result_sizes(self.sizes(), request), request.results[i]));
    }
    const Problem problem = problem_of<Op>(self, request, dtype);
    const KernelChoice choice = choose_kernel<Op>(dtype, request);
    const cpu::Call call{.problem = problem,
                         .input = self.const_data_ptr(),
                         .input_dtype = dtype,
                         .through = choice.through,
                         .outputs = outputs_of<Op>(results, request),
                         .finish = finish_of<Op>(problem, request),
                         .parallel_for = parallel_for,
                         .num_threads = at::get_num_threads(),
                         .isa = choose_isa()};
    dispatch_group<Op>(choice.group, [&]<DTypeGroup Group>() { cpu::run<Op::template Reduction, Group>(call); });
    return results;
  }
};

}  // namespace

void register_cpu(torch::Library& library) {
  register_kernels<CpuBackend>(library);
}

}  // namespace gpureduce
