// The lowest rung of the ladder.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace gpureduce {

// Adds `length` elements that lie side by side, first to last, on the calling thread. `output` is
// one element of the accumulator's type: double for float64, float for the other floats, int64_t
// for integers and bool, where sums wrap. No elements sum to 0. `dtype` is real.
void serial_sum(DType dtype, const void* input, int64_t length, void* output);

}  // namespace gpureduce
