// What a thread keeps while it walks contiguous 16-byte vectors: a value for each of the vector's slots where the order
// matters, and whatever is fastest where it does not.
#pragma once

#include "cuda/fold.cuh"
#include "cuda/packed.cuh"

namespace gpureduce::cuda {

// A state offers
//   kLanes, lanes[kLanes]       what is left when finish() was called
//   absorb(other)               lane by lane, after finish()
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
  __device__ __forceinline__ void absorb(const State& other) {
#pragma unroll
    for (int k = 0; k < kLanes; k++) lanes[k] = Reduction::merge(lanes[k], other.lanes[k]);
  }
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
  __device__ __forceinline__ void finish() { lanes[0] = Reduction::merge(lanes[0], packed.value(first_index)); }
};

// Both at once.
template <Joined Reduction, class Element>
struct State<Reduction, Element, true> {
  State<typename Reduction::OfLanes, Element> of_lanes;
  State<typename Reduction::OfThread, Element> of_thread;

  __device__ __forceinline__ void begin(int64_t index, const FocusOf<Reduction>& focus) {
    of_lanes.begin(index, focus);
    of_thread.begin(index, {});
  }
  __device__ __forceinline__ void take(const uint4& vector, unsigned v) {
    of_lanes.take(vector, v);
    of_thread.take(vector, v);
  }
  __device__ __forceinline__ void take_some(const uint4& vector, unsigned v, int begin, int end) {
    of_lanes.take_some(vector, v, begin, end);
    of_thread.take_some(vector, v, begin, end);
  }
  __device__ __forceinline__ void finish() { of_thread.finish(); }
  __device__ __forceinline__ void absorb(const State& other) {
    of_lanes.absorb(other.of_lanes);
    of_thread.absorb(other.of_thread);
  }
};

// What groups of 2 * distance threads fold their states to: fold_threads(), of each part.
template <class Reduction, class Element>
__device__ __forceinline__ typename Reduction::Value fold_states(State<Reduction, Element>& state, int distance) {
  if constexpr (Joined<Reduction>) {
    return {fold_states(state.of_lanes, distance), fold_states(state.of_thread, distance)};
  } else {
    return fold_threads<Reduction>(state.lanes, distance);
  }
}

// The states of a block's threads in shared memory, and their fold by a warp: all its threads get the result.
template <class Reduction, class Element, int kMaxThreads>
struct BlockMemory {
  using Value = typename Reduction::Value;
  static constexpr int kLanes = State<Reduction, Element>::kLanes;
  alignas(16) unsigned char memory[kLanes * kMaxThreads * sizeof(Value)];

  __device__ __forceinline__ Value* lanes() { return reinterpret_cast<Value*>(memory); }
  __device__ __forceinline__ void put(const State<Reduction, Element>& state, int thread, int num_threads) {
#pragma unroll
    for (int k = 0; k < kLanes; k++) lanes()[k * num_threads + thread] = state.lanes[k];
  }
  __device__ __forceinline__ Value fold(int num_threads) {
    constexpr int kMaxWarps = kMaxThreads / kWarp;
    Value folded[kLanes];
#pragma unroll
    for (int k = 0; k < kLanes; k++) {
      Value of_warps[kMaxWarps];
#pragma unroll
      for (int w = 0; w < kMaxWarps; w++) {
        const int i = w * kWarp + threadIdx.x % kWarp;
        of_warps[w] = w * kWarp < num_threads ? lanes()[k * num_threads + i] : Reduction::identity();
      }
      folded[k] = fold_registers<Reduction>(of_warps);
    }
    return fold_threads<Reduction>(folded, kWarp / 2);
  }
};
template <Joined Reduction, class Element, int kMaxThreads>
struct BlockMemory<Reduction, Element, kMaxThreads> {
  BlockMemory<typename Reduction::OfLanes, Element, kMaxThreads> of_lanes;
  BlockMemory<typename Reduction::OfThread, Element, kMaxThreads> of_thread;

  __device__ __forceinline__ void put(const State<Reduction, Element>& state, int thread, int num_threads) {
    of_lanes.put(state.of_lanes, thread, num_threads);
    of_thread.put(state.of_thread, thread, num_threads);
  }
  __device__ __forceinline__ typename Reduction::Value fold(int num_threads) {
    return {of_lanes.fold(num_threads), of_thread.fold(num_threads)};
  }
};

}  // namespace gpureduce::cuda
