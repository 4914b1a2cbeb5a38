// What a thread keeps while it walks contiguous 16-byte vectors: a value for each of the vector's slots where the order
// matters, and whatever is fastest where it does not.
#pragma once

#include "cuda/packed.cuh"

namespace gpureduce::cuda {

// A state offers
//   kLanes, lanes[kLanes]       what is left when finish() was called
//   begin(first_index, focus)   index, in the row, of the first slot of vector 0 (may lie before the row)
//   take(vector, v)             all slots of vector v
//   take_some(vector, v, begin, end)   slots begin .. end-1
template <class Reduction, class Element, bool kOrdered = Reduction::kOrdered>
struct State {
  static constexpr int kLanes = kSlots<Element>;
  using Value = typename Reduction::Value;
  using Input = typename Reduction::Input;
  Value lanes[kLanes];
  FocusOf<Reduction> focus;

  __device__ __forceinline__ void begin(int64_t, const FocusOf<Reduction>& of_leaf) {
    focus = of_leaf;
#pragma unroll
    for (int k = 0; k < kLanes; k++) lanes[k] = Reduction::identity();
  }
  __device__ __forceinline__ void take(const uint4& vector, unsigned) {
#pragma unroll
    for (int k = 0; k < kLanes; k++)
      lanes[k] = take_element<Reduction>(lanes[k], slot<Input, Element>(vector, k), 0, focus);
  }
  __device__ __forceinline__ void take_some(const uint4& vector, unsigned, int begin, int end) {
#pragma unroll
    for (int k = 0; k < kLanes; k++) {
      if (k >= begin && k < end)
        lanes[k] = take_element<Reduction>(lanes[k], slot<Input, Element>(vector, k), 0, focus);
    }
  }
  __device__ __forceinline__ void finish() {}
};

// Order-free: one value, and a packed form for whole vectors.
template <class Reduction, class Element>
struct State<Reduction, Element, false> {
  static constexpr int kLanes = 1;
  using Value = typename Reduction::Value;
  using Input = typename Reduction::Input;
  Value lanes[1];
  int64_t first_index;
  Packed<Reduction, Element> packed;

  __device__ __forceinline__ void begin(int64_t index, const FocusOf<Reduction>&) {
    static_assert(!Focused<Reduction>);
    lanes[0] = Reduction::identity();
    first_index = index;
    packed.begin();
  }
  __device__ __forceinline__ void take(const uint4& vector, unsigned v) { packed.take(vector, v); }
  __device__ __forceinline__ void take_some(const uint4& vector, unsigned v, int begin, int end) {
    const int64_t index = first_index + static_cast<int64_t>(v) * kSlots<Element>;
#pragma unroll
    for (int k = 0; k < kSlots<Element>; k++) {
      if (k >= begin && k < end) lanes[0] = Reduction::take(lanes[0], slot<Input, Element>(vector, k), index + k);
    }
  }
  __device__ __forceinline__ void finish() {
    lanes[0] = Reduction::merge(lanes[0], packed.value(first_index));
  }
};

}  // namespace gpureduce::cuda
