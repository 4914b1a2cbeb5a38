// Looks gpureduce::sum up by name and uses nothing else of the library.

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdlib>
#include <iostream>

int main() {
  const auto op = c10::Dispatcher::singleton().findSchema({"gpureduce::sum", ""});
  if (!op.has_value()) {
    std::cerr << "gpureduce::sum is not registered: the linker dropped libgpureduce.so\n";
    return EXIT_FAILURE;
  }
  std::cout << "found " << op->schema() << "\n";
  return EXIT_SUCCESS;
}
