// Merged axes on the GPU: where a position lies, and how to walk from one to the next.
#pragma once

#include "core/order.h"
#include "core/problem.h"

namespace gpureduce::cuda {

// Division by a number that is known at launch: exact for dividends below 2^31 (Granlund and Montgomery, 1994).
struct Divider {
  uint32_t divisor, multiplier, shift;

  Divider() = default;
  explicit Divider(int64_t d) : divisor(static_cast<uint32_t>(d)) {
    shift = log2_of(next_power_of_two(d));
    multiplier = static_cast<uint32_t>((((uint64_t{1} << shift) - divisor) << 32) / divisor + 1);
  }
  __device__ __forceinline__ uint32_t quotient(uint32_t n) const { return (__umulhi(n, multiplier) + n) >> shift; }
};

// Division of numbers from 0 to below `dividends`.
struct Division {
  int64_t divisor = 1;
  Divider divider{};
  bool narrow = false;

  Division() = default;
  Division(int64_t divisor, int64_t dividends)
      : divisor(divisor), narrow(std::max(divisor, dividends) < int64_t{1} << 31) {
    if (narrow) divider = Divider(divisor);
  }
  __device__ __forceinline__ int64_t quotient(int64_t n) const {
    return narrow ? divider.quotient(static_cast<uint32_t>(n)) : n / divisor;
  }
};

// Where position p of merged axes lies.
template <int kMaxAxes>
struct AxisMap {
  int count;
  bool narrow;  // positions, sizes, strides and places are below 2^31: 32-bit factors of 64-bit products
  Divider dividers[kMaxAxes];
  int64_t sizes[kMaxAxes], strides[kMaxAxes], places[kMaxAxes];

  // What Cursor::advance() needs to walk `step` positions on, where there are at most two axes (Plan::steps).
  int step_inner, wrap_size;
  int64_t step_offset, step_place, wrap_offset, wrap_place;

  AxisMap(const AxisList& list, int64_t positions, int64_t step = 0) : count(list.count) {
    constexpr int64_t kNarrow = int64_t{1} << 31;
    narrow = positions < kNarrow;
    for (int i = 0; i < count; i++) {
      sizes[i] = list[i].size;
      strides[i] = list[i].stride;
      places[i] = list[i].place;
      narrow = narrow && strides[i] < kNarrow && places[i] < kNarrow;
    }
    for (int i = 0; i < count && narrow; i++) dividers[i] = Divider(sizes[i]);
    step_inner = count == 2 ? static_cast<int>(step % sizes[1]) : 0;
    wrap_size = count == 2 ? static_cast<int>(sizes[1]) : 1;  // one axis never wraps
    const int64_t outer = count == 2 ? step / sizes[1] : step;
    step_offset = count == 0 ? 0 : outer * strides[0] + (count == 2 ? step_inner * strides[1] : 0);
    step_place = count == 0 ? 0 : outer * places[0] + (count == 2 ? step_inner * places[1] : 0);
    wrap_offset = count == 2 ? strides[0] - sizes[1] * strides[1] : 0;
    wrap_place = count == 2 ? places[0] - sizes[1] * places[1] : 0;
  }

  struct Location {
    int64_t offset = 0, place = 0;
  };

  template <class Index>
  __device__ __forceinline__ void add(Location& at, Index index, int axis) const {
    if constexpr (sizeof(Index) == 4) {
      at.offset += static_cast<uint64_t>(index) * static_cast<uint32_t>(strides[axis]);
      at.place += static_cast<uint64_t>(index) * static_cast<uint32_t>(places[axis]);
    } else {
      at.offset += index * strides[axis];
      at.place += index * places[axis];
    }
  }

  __device__ __forceinline__ Location locate(int64_t position) const {
    Location at;
    if (narrow) {
      auto rest = static_cast<uint32_t>(position);
#pragma unroll 1
      for (int i = count - 1; i > 0; i--) {
        const uint32_t outer = dividers[i].quotient(rest);
        add(at, rest - outer * dividers[i].divisor, i);
        rest = outer;
      }
      if (count > 0) add(at, rest, 0);
    } else {
#pragma unroll 1
      for (int i = count - 1; i > 0; i--) {
        const int64_t outer = position / sizes[i];
        add(at, position - outer * sizes[i], i);
        position = outer;
      }
      if (count > 0) add(at, position, 0);
    }
    return at;
  }
};

// locate(), for what is done once for an output or a lane: kept out of the kernels, whose code it would make up a third
// of. No member, which would have the kernel copy its arguments for `this`.
template <int kMaxAxes>
__device__ __noinline__ typename AxisMap<kMaxAxes>::Location locate_apart(const AxisMap<kMaxAxes>& map,
                                                                          int64_t position) {
  return map.locate(position);
}

// A position that moves on by the map's step.
template <int kMaxAxes>
struct Cursor {
  typename AxisMap<kMaxAxes>::Location at;
  int inner = 0;  // coordinate along the second of two axes

  __device__ __forceinline__ void start(const AxisMap<kMaxAxes>& map, int64_t position, int64_t offset) {
    at = locate_apart(map, position);
    at.offset += offset;
    if (map.count == 2) inner = static_cast<int>(position % map.sizes[1]);
  }
  __device__ __forceinline__ void advance(const AxisMap<kMaxAxes>& map) {
    at.offset += map.step_offset;
    at.place += map.step_place;
    inner += map.step_inner;
    if (inner >= map.wrap_size) {
      inner -= map.wrap_size;
      at.offset += map.wrap_offset;
      at.place += map.wrap_place;
    }
  }
};

}  // namespace gpureduce::cuda
