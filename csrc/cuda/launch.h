// The door to the GPU kernels: no torch above, no kernel below in sight.
#pragma once

#include <cuda_runtime_api.h>

#include "core/dtype.h"
#include "core/plan.h"
#include "reductions/reduction.h"

namespace gpureduce::cuda {

// Zeroed counters and room for partial results, for one launch on one stream.
struct Workspace {
  unsigned* counters = nullptr;
  void* partials = nullptr;
};

struct Call {
  const Problem& problem;
  const Plan& plan;
  const void* input;
  DType input_dtype;
  DType through;  // elements are rounded to this dtype as they are read
  Outputs outputs;
  FinishArguments finish;
  Workspace workspace;
  cudaStream_t stream;
};

// Defined for every reduction and group by cuda/instantiate.cu.in. Without an output it launches nothing.
template <template <class> class Reduction, DTypeGroup Group>
cudaError_t launch(const Call& call);

// Counters that are zero before the launch and after it, and that no other launch shares while this one can run: those
// of a stream serve its launches in turn, those of a launch that is being captured belong to its graph alone. Partial
// results up to `workspace_partial_bytes()` lie beside them; larger ones are the caller's to allocate.
cudaError_t acquire_workspace(int device, cudaStream_t stream, int64_t num_counters, size_t partial_bytes,
                              Workspace& workspace);
size_t max_workspace_partial_bytes();

}  // namespace gpureduce::cuda
