// Reductions of contiguous elements: row i starts `row_stride` elements after row i - 1, at any alignment.
//
// A row is read in its own frame: the aligned 16-byte vectors it lies in, the ends masked. Every slot of a vector adds
// whatever lane it sees, because a fold in halves does not notice a cyclic shift of the lanes.
#pragma once

#include "cuda/fold.cuh"
#include "cuda/launch.h"
#include "cuda/state.cuh"

namespace gpureduce::cuda {

struct RowsArguments {
  const void* input;
  int64_t row_stride, num_rows, length;
  int64_t leaf_elements;
  int num_leaves;
  int threads_per_row;
  int splits, leaves_per_split;
  int64_t num_items;
  Outputs outputs;
  FinishArguments finish;
  unsigned* counters;
  void* partials;
};

// The vectors that `length` elements from `first` on lie in.
template <class Element>
struct Frame {
  const uint4* vectors;
  int skip;        // slots of vector 0 before the first element
  unsigned slots;  // from there to the end: skip + length

  // A vector at either end, which holds other elements than the frame's, is masked by whoever takes it. It may even
  // stand out of the input: what lies there is not read.
  __device__ __forceinline__ uint4 load_end(const RowsArguments& args, unsigned v) const {
    const auto* first = static_cast<const Element*>(args.input);
    const auto* end = first + (args.num_rows - 1) * args.row_stride + args.length;
    const auto* elements = reinterpret_cast<const Element*>(vectors + v);
    if (elements >= first && elements + kSlots<Element> <= end) return __ldg(vectors + v);
    Element loaded[kSlots<Element>] = {};
#pragma unroll
    for (int k = 0; k < kSlots<Element>; k++) {
      if (elements + k >= first && elements + k < end) loaded[k] = elements[k];
    }
    uint4 vector;
    memcpy(&vector, loaded, sizeof(vector));
    return vector;
  }

  __device__ __forceinline__ Frame(const Element* first, int64_t length) {
    const auto address = reinterpret_cast<uintptr_t>(first);
    skip = static_cast<int>(address % sizeof(uint4) / sizeof(Element));
    vectors = reinterpret_cast<const uint4*>(address - address % sizeof(uint4));
    slots = static_cast<unsigned>(skip + length);
  }
  __device__ __forceinline__ unsigned num_vectors() const { return (slots + kSlots<Element> - 1) / kSlots<Element>; }
};

// Vectors thread, thread + num_threads, ... of a frame, kBatch loads in flight.
template <int kBatch, class Element, class State>
__device__ __forceinline__ void walk(State& state, const RowsArguments& args, const Frame<Element>& frame,
                                     unsigned thread, unsigned num_threads) {
  constexpr int kCount = kSlots<Element>;
  const unsigned whole = frame.slots / kCount;  // vectors before this one are full to their end
  unsigned v = thread;
  if (frame.skip > 0 && v == 0) {
    state.take_some(frame.load_end(args, 0), 0, frame.skip, min(kCount, static_cast<int>(frame.slots)));
    v = num_threads;
  }
  for (; v + (kBatch - 1) * num_threads < whole; v += kBatch * num_threads) {
    uint4 batch[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; i++) batch[i] = load_streaming(frame.vectors + v + i * num_threads);
#pragma unroll
    for (int i = 0; i < kBatch; i++) state.take(batch[i], v + i * num_threads);
  }
  if (v < whole) {
    uint4 batch[kBatch - 1];
#pragma unroll
    for (int i = 0; i < kBatch - 1; i++) {
      if (v + i * num_threads < whole) batch[i] = load_streaming(frame.vectors + v + i * num_threads);
    }
#pragma unroll
    for (int i = 0; i < kBatch - 1; i++) {
      if (v < whole) {
        state.take(batch[i], v);
        v += num_threads;
      }
    }
  }
  if (v == whole && frame.slots % kCount != 0) {
    state.take_some(frame.load_end(args, v), v, 0, static_cast<int>(frame.slots % kCount));
  }
}

// Up to 32 threads a row. kRows > 1: rows of one round, as many of them loaded side by side; kRows = 1: any number of
// rounds. All threads of a row hold its result; thread r of them stores row r.
template <class Reduction, class Element, int kRows>
__global__ void __launch_bounds__(256) rows_warp_kernel(const RowsArguments args) {
  using Value = typename Reduction::Value;
  constexpr int kCount = kSlots<Element>;
  wait_for_previous_kernel();
  const auto* input = static_cast<const Element*>(args.input);
  const int threads = args.threads_per_row, groups = kWarp / threads;
  const int thread = threadIdx.x % threads, group = threadIdx.x % kWarp / threads;
  for (int64_t item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    const int64_t warp = item * (blockDim.x / kWarp) + threadIdx.x / kWarp;
    const int64_t first_row = warp * (groups * kRows) + group;
    Value results[kRows];
    if constexpr (kRows == 1) {
      State<Reduction, Element> state;
      state.begin(0);
      if (first_row < args.num_rows) {
        const Frame<Element> frame(input + first_row * args.row_stride, args.length);
        state.begin(-frame.skip);
        walk<4>(state, args, frame, thread, threads);
      }
      state.finish();
      results[0] = fold_threads<Reduction>(state.lanes, threads / 2);
    } else {
      uint4 vectors[kRows];
#pragma unroll
      for (int r = 0; r < kRows; r++) {
        const int64_t row = first_row + r * groups;
        if (row < args.num_rows) {
          const Frame<Element> frame(input + row * args.row_stride, args.length);
          if (thread < frame.num_vectors()) vectors[r] = frame.load_end(args, thread);
        }
      }
#pragma unroll
      for (int r = 0; r < kRows; r++) {
        const int64_t row = first_row + r * groups;
        State<Reduction, Element> state;
        state.begin(0);
        if (row < args.num_rows) {
          const Frame<Element> frame(input + row * args.row_stride, args.length);
          state.begin(-frame.skip);
          const int begin = thread == 0 ? frame.skip : 0;
          const int end = min(kCount, static_cast<int>(frame.slots) - thread * kCount);
          if (begin == 0 && end == kCount) {
            state.take(vectors[r], thread);
          } else {
            state.take_some(vectors[r], thread, begin, end);
          }
          // A shifted row may end in one vector more than it has threads.
          if (thread == 0 && frame.num_vectors() > threads) {
            state.take_some(frame.load_end(args, threads), threads, 0,
                            static_cast<int>(frame.slots) - threads * kCount);
          }
        }
        state.finish();
        results[r] = fold_threads<Reduction>(state.lanes, threads / 2);
      }
    }
#pragma unroll 1
    for (int r = thread; r < kRows; r += threads) {
      Value result = results[0];
#pragma unroll
      for (int i = 1; i < kRows; i++) {
        if (i == r) result = results[i];
      }
      const int64_t row = first_row + r * groups;
      if (row < args.num_rows) {
        store<Reduction>(args.outputs, row, result, args.finish);
      }
    }
  }
}

// A block walks leaves of one row, one after the other: `threads` threads for the lanes of a leaf, one warp that folds
// them while the others are at the next leaf. Thread 0 holds the row's result.
//
// kCluster: the blocks of a row are a thread block cluster with a leaf each, and the leaf values meet in the first
// one's shared memory.
template <class Reduction, class Element>
inline constexpr int kMaxRowThreads =
    (Reduction::kOrdered && sizeof(Element) == 1) || has_wide_lanes<Reduction>() ? 128 : 256;

template <class Reduction, class Element, bool kCluster>
__global__ void __launch_bounds__(kMaxRowThreads<Reduction, Element>, 1024 / kMaxRowThreads<Reduction, Element>)
    rows_block_kernel(const RowsArguments args) {
  using Value = typename Reduction::Value;
  using ThreadState = State<Reduction, Element>;
  constexpr int kLanes = ThreadState::kLanes, kMaxThreads = kMaxRowThreads<Reduction, Element>;
  constexpr int kBatch = sizeof(Element) == 1 && !Reduction::kOrdered ? 8 : 4;  // in 64 registers
  constexpr int kMaxWarps = 8, kMaxLeaves = 512;
  __shared__ alignas(16) unsigned char lane_memory[2 * kLanes * kMaxThreads * sizeof(Value)];
  __shared__ alignas(16) unsigned char leaf_memory[kMaxLeaves * sizeof(Value)];
  auto* leaf_values = reinterpret_cast<Value*>(leaf_memory);
  if constexpr (kCluster) cluster_arrive();  // the first block's shared memory may be written once all have come
  wait_for_previous_kernel();

  const int thread = threadIdx.x, num_threads = blockDim.x, num_warps = num_threads / kWarp;
  const int warp = thread / kWarp, lane = thread % kWarp;
  int buffer = 0;
  for (int64_t item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    const int64_t row = args.splits == 1 ? item : item / args.splits;
    const int first_leaf = static_cast<int>(item - row * args.splits) * args.leaves_per_split;
    const int num_leaves = min(args.leaves_per_split, args.num_leaves - first_leaf);
    const auto* elements = static_cast<const Element*>(args.input) + row * args.row_stride;

    for (int i = 0; i < num_leaves; i++, buffer ^= 1) {
      const int64_t start = (first_leaf + i) * args.leaf_elements;
      const bool last = first_leaf + i == args.num_leaves - 1;
      const Frame<Element> frame(elements + start, last ? args.length - start : args.leaf_elements);
      ThreadState state;
      state.begin(start - frame.skip);
      walk<kBatch>(state, args, frame, thread, num_threads);
      state.finish();

      auto* lanes = reinterpret_cast<Value*>(lane_memory) + buffer * kLanes * kMaxThreads;
#pragma unroll
      for (int k = 0; k < kLanes; k++) lanes[k * num_threads + thread] = state.lanes[k];
      __syncthreads();  // the other buffer was read before this barrier, so that one is enough
      if (warp == i % num_warps) {
        Value folded[kLanes];
#pragma unroll
        for (int k = 0; k < kLanes; k++) {
          Value of_warps[kMaxWarps];
#pragma unroll
          for (int w = 0; w < kMaxWarps; w++) {
            of_warps[w] = w < num_warps ? lanes[k * num_threads + w * kWarp + lane] : Reduction::identity();
          }
          folded[k] = fold_registers<Reduction>(of_warps);
        }
        const Value leaf_value = fold_threads<Reduction>(folded, kWarp / 2);
        if (lane == 0) leaf_values[i] = leaf_value;
      }
    }

    if constexpr (kCluster) {
      cluster_wait();
      if (thread == 0) *in_first_block(leaf_values + first_leaf) = leaf_values[0];
      cluster_arrive();
      cluster_wait();
      if (first_leaf > 0) return;
    } else if (num_leaves > 1) {
      __syncthreads();
    }
    if (warp != 0) continue;
    __syncwarp();
    Value result = leaf_values[0];
    if constexpr (kCluster) {
      result = fold_by_warp<Reduction>(args.num_leaves, [&](int i) { return leaf_values[i]; });
    } else if (args.splits > 1) {
      Value* partials = static_cast<Value*>(args.partials) + row * args.num_leaves;
      for (int i = lane; i < num_leaves; i += kWarp) partials[first_leaf + i] = leaf_values[i];
      __syncwarp();
      unsigned ticket = 0;
      if (lane == 0) ticket = draw_ticket(args.counters + row, args.splits - 1);
      ticket = __shfl_sync(kFullMask, ticket, 0);
      __syncwarp();
      if (ticket != args.splits - 1u) continue;
      result = fold_by_warp<Reduction>(args.num_leaves, [&](int i) { return load_shared_by_blocks(partials + i); });
    } else if (num_leaves > 1) {
      result = fold_by_warp<Reduction>(num_leaves, [&](int i) { return leaf_values[i]; });
    }
    if (lane == 0) store<Reduction>(args.outputs, row, result, args.finish);
  }
}

}  // namespace gpureduce::cuda
