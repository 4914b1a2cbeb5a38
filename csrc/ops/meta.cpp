#include <ATen/ops/empty.h>

#include "ops/backends.h"
#include "ops/kernel.h"

namespace gpureduce {
namespace {

struct MetaBackend {
  static constexpr bool kSymbolic = true;

  template <class Op>
  static Tensors<Op> run(const at::Tensor& self, const Request& request, DType) {
    Tensors<Op> results;
    for (int i = 0; i < Op::kNumOutputs; i++) {
      results[i] = at::empty_symint(result_sizes(self.sym_sizes(), request), self.options().dtype(request.results[i]));
    }
    return results;
  }
};

}  // namespace

void register_meta(torch::Library& library) {
  register_kernels<MetaBackend>(library);
}

}  // namespace gpureduce
