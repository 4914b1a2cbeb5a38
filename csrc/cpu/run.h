// The door to the CPU loops.
#pragma once

#include <functional>

#include "core/dtype.h"
#include "core/problem.h"
#include "cpu/isa.h"
#include "reductions/reduction.h"

namespace gpureduce::cpu {

// Runs body(begin, end) over pieces of [0, count), at least `grain` in each; torch's own threads, handed down.
using ParallelFor = void (*)(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

struct Call {
  const Problem& problem;
  const void* input;
  DType input_dtype;
  DType through;  // elements are rounded to this dtype as they are read
  Outputs outputs;
  FinishArguments finish;
  ParallelFor parallel_for;
  int num_threads;  // that parallel_for has
  Isa isa;          // the widest instruction set to use
};

// Defined for every reduction and group by cpu/instantiate.cpp.in.
template <template <class> class Reduction, DTypeGroup Group>
void run(const Call& call);

}  // namespace gpureduce::cpu
