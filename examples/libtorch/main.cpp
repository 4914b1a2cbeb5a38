// Reduces a tensor with gpureduce, in its two ways: the C++ functions, and the operators by name,
// as a program that loads its operators at run time would. Prints each result beside torch's.
//
//   reduce [--device cpu|cuda]

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gpureduce/gpureduce.h>

#include <cstdlib>
#include <iostream>
#include <string>

namespace {

bool report(const std::string& name, const at::Tensor& ours, const at::Tensor& torchs) {
  const bool same = ours.sizes() == torchs.sizes() && ours.scalar_type() == torchs.scalar_type() &&
                    ours.device() == torchs.device() && at::allclose(ours, torchs, /*rtol=*/1e-5, /*atol=*/1e-5);
  std::cout << (same ? "ok       " : "DIFFERENT ") << name << ": gpureduce " << ours.flatten()[0].item() << ", torch "
            << torchs.flatten()[0].item() << ", shape " << ours.sizes() << "\n";
  return same;
}

bool run(const at::Device& device) {
  at::manual_seed(0);
  const at::Tensor values = at::randn({1000, 257}, at::TensorOptions().device(device));
  bool good = true;

  // As C++ functions.
  good &= report("sum(values)", gpureduce::sum(values), values.sum());
  good &= report("sum(values, {0})", gpureduce::sum(values, at::IntArrayRef({0})), values.sum(0));
  good &= report("sum(values, {1}, keepdim, double)", gpureduce::sum(values, at::IntArrayRef({1}), true, at::kDouble),
                 values.sum(at::IntArrayRef({1}), true, at::kDouble));
  good &= report("mean(values)", gpureduce::mean(values), values.mean());
  good &=
      report("amax(values, {-1})", gpureduce::amax(values, at::IntArrayRef({-1})), values.amax(at::IntArrayRef({-1})));
  good &= report("argmax(values)", gpureduce::argmax(values), values.argmax());
  good &= report("argmax(values, 0)", gpureduce::argmax(values, 0), values.argmax(0));

  // The order of combination does not depend on the layout, so neither do the bits.
  const at::Tensor columns = gpureduce::sum(values, at::IntArrayRef({0}));
  const at::Tensor rows = gpureduce::sum(values.t().contiguous(), at::IntArrayRef({1}));
  const bool same_bits = at::equal(columns, rows);
  std::cout << (same_bits ? "ok       " : "DIFFERENT ") << "columns and rows have the same bits\n";
  good &= same_bits;

  // By name, through the dispatcher.
  using Sum = at::Tensor(const at::Tensor&, at::OptionalIntArrayRef, bool, std::optional<at::ScalarType>);
  const auto sum = c10::Dispatcher::singleton().findSchemaOrThrow("gpureduce::sum", "").typed<Sum>();
  good &= report("dispatcher: gpureduce::sum", sum.call(values, std::nullopt, false, std::nullopt), values.sum());
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  std::string device = "cpu";
  if (argc == 3 && std::string(argv[1]) == "--device") {
    device = argv[2];
  } else if (argc != 1) {
    std::cerr << "usage: " << argv[0] << " [--device cpu|cuda]\n";
    return 2;
  }
  try {
    if (!run(at::Device(device))) {
      return EXIT_FAILURE;
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return EXIT_FAILURE;
  }
  std::cout << "all results agree with torch's on " << device << "\n";
  return EXIT_SUCCESS;
}
