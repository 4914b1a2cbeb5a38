// Several reduced axes, walked as one.
#pragma once

#include "core/problem.h"

namespace gpureduce::cpu {

// What stands at a position: its offset in the input, its index in logical order.
struct Place {
  int64_t offset, index;
};
Place place_of(const AxisList& axes, int64_t position);

// Whether the index is a multiple of the position.
bool has_even_indices(const AxisList& axes);

// The axes in the order of their indices.
AxisList in_logical_order(const AxisList& axes);

}  // namespace gpureduce::cpu
