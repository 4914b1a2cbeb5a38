#include <ATen/ops/empty.h>

#include "ops/backends.h"
#include "ops/kernel.h"

namespace gpureduce {
namespace {

struct MetaBackend {
  static constexpr bool kSymbolic = true;

  template <class Op>
  static at::Tensor run(const at::Tensor& self, const Request& request, DType) {
    return at::empty_symint(result_sizes(self.sym_sizes(), request), self.options().dtype(request.result));
  }
};

}  // namespace

void register_meta(torch::Library& library) {
  register_kernels<MetaBackend>(library);
}

}  // namespace gpureduce
