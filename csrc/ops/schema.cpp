// Every schema and tag, and the kernels behind each dispatch key.
#include <string>

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include "ops/backends.h"
#include "ops/rung.h"
#include "reductions/registry.h"

namespace gpureduce {
namespace {

constexpr const char* arguments_of(Signature signature) {
  switch (signature) {
    case Signature::kDimsDtype:
    case Signature::kMean:
    case Signature::kNanMean:
      return "(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)";
    case Signature::kDims:
    case Signature::kTruth:
    case Signature::kLogSumExp:
    case Signature::kStats:
      return "(Tensor self, int[1]? dim=None, bool keepdim=False)";
    case Signature::kCount:
      return "(Tensor self, int[1]? dim=None)";
    case Signature::kIndex:
      return "(Tensor self, int? dim=None, bool keepdim=False)";
    case Signature::kWhole:
      return "(Tensor self)";
    case Signature::kAlongDim:
      return "(Tensor self, int dim, bool keepdim=False)";
    case Signature::kVar:
      return "(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)";
    case Signature::kNorm:
      break;
  }
  return "(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)";
}

constexpr const char* results_of(Signature signature, int num_outputs) {
  if (num_outputs == 1) return "Tensor";
  switch (signature) {
    case Signature::kAlongDim:
      return "(Tensor values, Tensor indices)";
    case Signature::kVar:
      return "(Tensor, Tensor)";
    case Signature::kStats:
      return "(Tensor count, Tensor sum, Tensor mean, Tensor var, Tensor min, Tensor max, Tensor argmin, "
             "Tensor argmax, Tensor num_nan, Tensor num_inf)";
    default:
      return "(Tensor min, Tensor max)";
  }
}

template <class Op>
std::string schema_of() {
  return c10::str(Op::kName, arguments_of(Op::kSignature), " -> ", results_of(Op::kSignature, Op::kNumOutputs));
}

template <class F>
void for_each_op(F f) {
  [&]<class... Ops>(std::tuple<Ops...>*) { (f.template operator()<Ops>(), ...); }(static_cast<Registry*>(nullptr));
}

template <class F>
void for_each_name(F f) {
  for_each_op([&]<class Op>() { f(Op::kName); });
}

// A second copy of the library, from another path, must not take the process down: the first one stays in charge.
const bool is_first_copy = !c10::Dispatcher::singleton().findSchema({"gpureduce::sum", ""}).has_value();

std::string name_of(const c10::OperatorHandle& op) {
  return op.schema().name() + "(): ";
}

// The tensor that an op reduces, its first argument.
const at::Tensor& self_of(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  return stack[stack.size() - op.schema().arguments().size()].toTensor();
}

void reject_layout(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::Tensor& self = self_of(op, *stack);
  std::string kind = c10::str("layout ", self.is_nested() ? at::kStrided : self.layout());
  if (self.is_nested()) kind = "a nested tensor";
  if (self.is_quantized()) kind = c10::str("a quantized tensor (", self.scalar_type(), ")");
  TORCH_CHECK_NOT_IMPLEMENTED(false, name_of(op), "self: expected a dense strided tensor, got ", kind);
}

template <auto kKernel>
void register_for_all(torch::Library& library) {
  const auto add = [&](const char* name) { library.impl(name, torch::CppFunction::makeFromBoxedFunction<kKernel>()); };
  for_each_name(add);
  add("sum_rung");
}

// No derivatives: a forward works on a tensor that requires grad, a backward says that there is none. It does what
// torch's autogradNotImplementedFallback() would, which looks at every argument and result for what no op here has
// (other tensors, views, results in place): that shows in the time of a small call.
void forward_only(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  using torch::autograd::NotImplemented;
  std::shared_ptr<NotImplemented> backward;
  {
    const at::Tensor& self = self_of(op, *stack);
    TORCH_CHECK_NOT_IMPLEMENTED(!torch::autograd::isFwGradDefined(self), name_of(op),
                                "self: expected a tensor without a forward gradient: the op has no derivative");
    if (torch::autograd::compute_requires_grad(self)) {
      backward = {new NotImplemented(op.schema().name()), torch::autograd::deleteNode};
      backward->set_next_edges(torch::autograd::collect_next_edges(self));
    }
  }
  {
    at::AutoDispatchBelowADInplaceOrView below;
    op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }
  if (backward == nullptr) return;
  for (const c10::IValue& result : torch::jit::last(*stack, op.schema().returns().size())) {
    const at::Tensor& tensor = result.toTensor();
    if (torch::autograd::isDifferentiableType(tensor.scalar_type())) torch::autograd::set_history(tensor, backward);
  }
}

#ifndef GPUREDUCE_WITH_CUDA
void reject_cuda(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, name_of(op),
                              "self: expected a CPU tensor, got a CUDA tensor, and this gpureduce "
                              "was built without CUDA kernels; build it with GPUREDUCE_CUDA=ON");
}
#endif

}  // namespace

TORCH_LIBRARY_FRAGMENT(gpureduce, library) {
  if (!is_first_copy) return;
  const std::vector<at::Tag> tags{at::Tag::pt2_compliant_tag, at::Tag::reduction};
  for_each_op([&]<class Op>() { library.def(schema_of<Op>().c_str(), tags); });
  library.def("sum_rung(Tensor self, str rung) -> Tensor", tags);
  define_explain(library);
}

TORCH_LIBRARY_IMPL(gpureduce, CPU, library) {
  if (!is_first_copy) return;
  register_cpu(library);
  register_rung_cpu(library);
}

TORCH_LIBRARY_IMPL(gpureduce, Meta, library) {
  if (!is_first_copy) return;
  register_meta(library);
  register_rung_meta(library);
}

TORCH_LIBRARY_IMPL(gpureduce, CUDA, library) {
  if (!is_first_copy) return;
#ifdef GPUREDUCE_WITH_CUDA
  register_cuda(library);
  register_rung_cuda(library);
#else
  register_for_all<reject_cuda>(library);
#endif
}

TORCH_LIBRARY_IMPL(gpureduce, Autograd, library) {
  if (is_first_copy) register_for_all<forward_only>(library);
}

namespace {

// Layouts that a strided kernel cannot read, each with its dispatch key: one answer for all.
const std::vector<torch::Library> rejecting_libraries = [] {
  std::vector<torch::Library> libraries;
  if (!is_first_copy) return libraries;
  for (const auto key :
       {c10::DispatchKey::SparseCPU, c10::DispatchKey::SparseCUDA, c10::DispatchKey::SparseCsrCPU,
        c10::DispatchKey::SparseCsrCUDA, c10::DispatchKey::QuantizedCPU, c10::DispatchKey::QuantizedCUDA,
        c10::DispatchKey::NestedTensorCPU, c10::DispatchKey::NestedTensorCUDA, c10::DispatchKey::MkldnnCPU}) {
    libraries.emplace_back(torch::Library::IMPL, "gpureduce", key, __FILE__, __LINE__);
    register_for_all<reject_layout>(libraries.back());
  }
  return libraries;
}();

}  // namespace

}  // namespace gpureduce
