// The GPU rungs of the ladder: kernels as they are taught, made right for every length and real
// dtype.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "core/dtype.h"
#include "ladder/rung.h"

namespace gpureduce {

// Bytes that each of the two buffers of partial sums needs; 0 when one pass is enough.
size_t rung_scratch_bytes(Rung rung, DType dtype, int64_t length);

// Sums `length` elements that lie side by side, in as many passes as it takes until one value is
// left. Everything between the input and `output` is in the accumulator's type, and so is `output`,
// one element: double for float64, float for the other floats, int64_t for integers and bool, where
// sums wrap. No elements sum to 0.
//
// cudaErrorInvalidValue for the rungs that are no kernel of the ladder (serial, sum) and for
// complex dtypes.
cudaError_t launch_rung(Rung rung, DType dtype, const void* input, int64_t length, void* partials_a, void* partials_b,
                        void* output, cudaStream_t stream);

}  // namespace gpureduce
