// What a call asks for, once names, dtypes and dims are settled: which axes are kept and which are reduced.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>

namespace gpureduce {

inline constexpr int kMaxDims = 64;

struct Axis {
  int64_t size;
  int64_t stride;  // of the input, in elements
  int64_t place;   // kept: stride of the output; reduced: stride of the logical index
};

struct AxisList {
  int count = 0;
  std::array<Axis, kMaxDims> axes;

  const Axis& operator[](int i) const { return axes[i]; }
  const Axis& innermost() const { return axes[count - 1]; }
};

// Axes are sorted by decreasing stride (outermost first) and merged where two walk like one; size-1 axes are gone.
struct Problem {
  AxisList kept, reduced;
  int64_t num_outputs = 1;
  int64_t length = 1;  // elements of one reduction
  int element_bytes = 1;
};

// Elements from the first one to past the last one in memory.
int64_t span_elements(const Problem& problem);

// Strides in elements. `indexed`: the reduction reports a position, so an axis merges only where the logical index
// goes on as well.
Problem make_problem(int num_dims, const int64_t* sizes, const int64_t* strides, const std::bitset<kMaxDims>& reduced,
                     int element_bytes, bool indexed);

}  // namespace gpureduce
