// The order in which the elements of one reduction are combined: part of the library's contract (docs/order.md).
//
// The elements are cut into leaves. Element i of a leaf goes to lane i mod `lanes`; a lane takes its elements in
// increasing i, starting from the identity. Lanes fold in halves to the leaf's value, leaf values (padded with the
// identity to a power of two) fold in halves to the result:
//
//   halves(a): while (size > 1) a[i] = merge(a[i], a[i + size / 2]) for i < size / 2
//
// The order depends on the length, the element's size and the reduction, and on nothing else.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace gpureduce {

constexpr int64_t next_power_of_two(int64_t x) {
  return x <= 1 ? 1 : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(x)));
}
constexpr int log2_of(int64_t power_of_two) {
  return std::bit_width(static_cast<uint64_t>(power_of_two)) - 1;
}
constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Leaves of a reduction: so many or fewer, in every kernel.
inline constexpr int64_t kMaxLeaves = 512;

struct Order {
  int64_t lanes = 1;          // a power of two
  int64_t leaf_elements = 1;  // of every leaf but the last
  int64_t num_leaves = 1;

  constexpr int64_t leaf_length(int64_t leaf, int64_t length) const {
    return leaf == num_leaves - 1 ? length - leaf * leaf_elements : leaf_elements;
  }
};

// `length` elements of `element_bytes` each, as they lie in the input (before any conversion). `wide_lane`: a lane of
// the reduction holds more than one word, so that there are half as many at most.
constexpr Order make_order(int64_t length, int64_t element_bytes, bool wide_lane) {
  constexpr int64_t kVectorBytes = 16, kTreeVectors = 32;  // up to 512 bytes: a pure tree
  constexpr int64_t kMinLaneBytes = 512;                   // of one element in every lane
  const int64_t max_lane_bytes = wide_lane ? 2048 : 4096;
  constexpr int64_t kMaxLanes = 2048;  // 1-byte elements would have 4096
  constexpr int64_t kMinLeafBytes = 16384;
  Order order;
  if (ceil_div(length * element_bytes, kVectorBytes) <= kTreeVectors) {
    order.lanes = next_power_of_two(length);
  } else {
    order.lanes = std::clamp(next_power_of_two(ceil_div(length, 4)), kMinLaneBytes / element_bytes,
                             std::min(max_lane_bytes / element_bytes, kMaxLanes));
  }
  order.leaf_elements = std::max(kMinLeafBytes, next_power_of_two(length * element_bytes) / kMaxLeaves) / element_bytes;
  order.num_leaves = std::max<int64_t>(1, (length + order.leaf_elements / 2) / order.leaf_elements);
  return order;
}

}  // namespace gpureduce
