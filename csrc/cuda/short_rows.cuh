// Rows of a few elements: up to 512 bytes, which is a tree without rounds (core/order.h).
#pragma once

#include "cuda/rows.cuh"

namespace gpureduce::cuda {

// Rows of whole, aligned vectors: `threads_per_row` threads with kVectors vectors each of kShortRows rows in flight.
// All threads of a row hold its result; thread r stores row r.
//
// A lane is split, top to bottom, as (vector of the thread | thread | slot).
template <class Reduction, class Element, int kVectors>
__global__ void __launch_bounds__(256) short_rows_kernel(const __grid_constant__ RowsArguments args) {
  using ThreadState = State<Reduction, Element>;
  constexpr int kCount = kSlots<Element>;
  wait_for_previous_kernel();
  let_next_kernel_start();
  const auto* input = static_cast<const Element*>(args.input);
  const int threads = args.threads_per_row, log2_threads = log2_on_device(threads), groups = kWarp >> log2_threads;
  const int thread = threadIdx.x & (threads - 1), group = threadIdx.x % kWarp >> log2_threads;
  const int num_vectors = static_cast<int>(args.length) / kCount;
  for (int64_t item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    const int64_t warp = item * (blockDim.x / kWarp) + threadIdx.x / kWarp;
    const int64_t first_row = warp * (groups * kShortRows) + group;
    uint4 vectors[kShortRows][kVectors];
    FocusOf<Reduction> focus[kShortRows];
#pragma unroll
    for (int r = 0; r < kShortRows; r++) {
      const int64_t row = first_row + r * groups;
      const Element* elements = input + min(row, args.num_rows - 1) * args.row_stride;
#pragma unroll
      for (int j = 0; j < kVectors; j++) {
        const int v = j * threads + thread;
        vectors[r][j] = neutral_vector<Reduction, Element>();
        if (v < num_vectors && row < args.num_rows) {
          vectors[r][j] = load_streaming(reinterpret_cast<const uint4*>(elements) + v);
        }
      }
      focus[r] = focus_at<Reduction, true>(elements, args.length, args.finish);
    }
    typename Reduction::Value values[kShortRows];
#pragma unroll
    for (int r = 0; r < kShortRows; r++) {
      const bool there = first_row + r * groups < args.num_rows;
      for (bool again = true; again;) {
        // Order-free reductions have one state for all vectors; otherwise the vectors' lanes fold first.
        constexpr int kStates = Reduction::kOrdered ? kVectors : 1;
        ThreadState states[kStates];
#pragma unroll
        for (int j = 0; j < kStates; j++) states[j].begin(0, focus[r]);
#pragma unroll
        for (int j = 0; j < kVectors; j++) {
          const int v = j * threads + thread;
          if (has_neutral<Reduction> || v < num_vectors) states[j % kStates].take(vectors[r][j], v);
        }
        states[0].finish();
        if constexpr (kStates > 1) {
          static_assert(kStates == 2);
          states[0].absorb(states[1]);
        }
        values[r] = fold_states(states[0], threads / 2);
        again = false;
        if constexpr (Focused<Reduction>) {
          again = __any_sync(kFullMask, there && Reduction::refocus(focus[r], values[r], args.length, args.finish));
        }
      }
    }
#pragma unroll 1
    for (int r = thread; r < kShortRows; r += threads) {
      auto value = values[0];
      FocusOf<Reduction> of_row = focus[0];
#pragma unroll
      for (int i = 1; i < kShortRows; i++) {
        if (i == r) {
          value = values[i];
          of_row = focus[i];
        }
      }
      const int64_t row = first_row + r * groups;
      if (row < args.num_rows) {
        const auto part = make_part<Reduction>(value, of_row, args.length, args.finish);
        store<Reduction>(args.outputs, row, part, args.finish);
      }
    }
  }
}

// Rows that are shorter than a vector, without gaps: a thread takes groups of rows that fill whole vectors, and stores
// the rows of a group at once.
template <class Reduction, class Element, int kLength>
__device__ __forceinline__ void reduce_tiny_rows(const RowsArguments& args, uint4* store_memory) {
  using Value = typename Reduction::Value;
  using Input = typename Reduction::Input;
  constexpr int kCount = kSlots<Element>, kLanes = next_power_of_two(kLength);
  constexpr TinyRows kTiny = tiny_rows(kLength, kCount);
  const int64_t num_groups = args.num_rows / kTiny.rows;
  for (int64_t item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    const int64_t first_group = item * (kTiny.groups * blockDim.x) + threadIdx.x;
    uint4 vectors[kTiny.groups][kTiny.vectors];
#pragma unroll
    for (int g = 0; g < kTiny.groups; g++) {
      const int64_t group = min(first_group + g * blockDim.x, num_groups - 1);
      const auto* first = static_cast<const uint4*>(args.input) + group * kTiny.vectors;
      // Neighbouring threads read what is left of a line: it is to stay in L1 where a group is several vectors.
#pragma unroll
      for (int j = 0; j < kTiny.vectors; j++) {
        vectors[g][j] = kTiny.vectors > 1 ? __ldg(first + j) : load_streaming(first + j);
      }
    }
#pragma unroll
    for (int g = 0; g < kTiny.groups; g++) {
      const int64_t group = first_group + g * blockDim.x;
      Element elements[kTiny.vectors * kCount];
      memcpy(elements, vectors[g], sizeof(elements));
      Value results[kTiny.rows];
#pragma unroll
      for (int r = 0; r < kTiny.rows; r++) {
        Value lanes[kLanes];
#pragma unroll
        for (int i = 0; i < kLanes; i++) {
          lanes[i] = Reduction::identity();
          if (i < kLength) lanes[i] = Reduction::take(lanes[i], widen<Input>(elements[r * kLength + i]), i);
        }
        results[r] = fold_registers<Reduction>(lanes);
      }
      store_neighbours<Reduction>(args.outputs, group * kTiny.rows, results, group < num_groups, args.finish,
                                  store_memory);
    }
  }
}

template <class Reduction, class Element>
__global__ void __launch_bounds__(kTinyThreads) tiny_rows_kernel(const __grid_constant__ RowsArguments args) {
  __shared__ StoreMemory<widest_results<Reduction, typename Reduction::Value>(kSlots<Element>), kTinyThreads>
      store_memory;
  wait_for_previous_kernel();
  let_next_kernel_start();
  [&]<int... kLengths>(std::integer_sequence<int, kLengths...>) {
    const auto reduce = [&]<int kLength>() {
      if constexpr (kLength > 1 && kLength < kSlots<Element>) {
        if (args.length == kLength) reduce_tiny_rows<Reduction, Element, kLength>(args, store_memory.of_warp());
      }
    };
    (reduce.template operator()<kLengths>(), ...);
  }(std::make_integer_sequence<int, kTinyLength + 1>());
}

// Rows of any length and alignment that lie (nearly) side by side: a block copies `rows_per_tile` of them, as they lie
// in memory, to shared memory and takes them from there element by element. The first thread of a row stores it.
//
// A lane is split, top to bottom, as (lane of the thread | thread).
struct StagedArguments : RowsArguments {
  int rows_per_tile, lanes_per_thread;
};

template <class Reduction, class Element, int kLanes>
__device__ __forceinline__ void fold_staged_rows(const StagedArguments& args, uint32_t staged, int64_t first_row,
                                                 int num_rows) {
  using Value = typename Reduction::Value;
  using Input = typename Reduction::Input;
  const int threads = args.threads_per_row, log2_threads = log2_on_device(threads);
  const int rows_at_once = blockDim.x >> log2_threads, thread = threadIdx.x & (threads - 1);
  const int length = static_cast<int>(args.length), row_stride = static_cast<int>(args.row_stride);
  // All threads of a warp stay to the end, for the shuffles.
  for (int done = 0; done < num_rows; done += rows_at_once) {
    const int row = done + (threadIdx.x >> log2_threads);
    const bool there = row < num_rows;
    const uint32_t elements = staged + (there ? row * row_stride : 0) * sizeof(Element);
    FocusOf<Reduction> focus{};
    if constexpr (Focused<Reduction>) {
      focus = first_focus<Reduction>(args.finish, [&](int i) {
        return widen<Input>(load_shared<Element>(elements + min(i, length - 1) * static_cast<int>(sizeof(Element))));
      });
    }
    PartOf<Reduction> result;
    for (bool again = true; again;) {
      constexpr int kValues = Reduction::kOrdered ? kLanes : 2;  // two chains are enough where any order will do
      Value lanes[kValues];
#pragma unroll
      for (int l = 0; l < kValues; l++) lanes[l] = Reduction::identity();
#pragma unroll
      for (int l = 0; l < kLanes; l++) {
        const int i = l * threads + thread;
        Value& lane = lanes[l % kValues];
        // What lies behind the row is loaded too, and not taken. Less than half of the lanes can be empty.
        auto element = load_shared<Element>(elements + i * static_cast<int>(sizeof(Element)));
        const bool taken = l < kLanes / 2 || i < length;
        if constexpr (has_neutral<Reduction>) {
          if (!taken) element = Reduction::neutral();
          lane = take_element<Reduction>(lane, widen<Input>(element), i, focus);
        } else if (taken) {
          lane = take_element<Reduction>(lane, widen<Input>(element), i, focus);
        }
      }
      Value folded[1] = {fold_registers<Reduction>(lanes)};
      const Value value = fold_threads<Reduction>(folded, threads / 2);
      result = make_part<Reduction>(value, focus, length, args.finish);
      again = false;
      if constexpr (Focused<Reduction>) {
        again = __any_sync(kFullMask, there && Reduction::refocus(focus, value, length, args.finish));
      }
    }
    if (there && thread == 0) {
      store<Reduction>(args.outputs, first_row + row, result, args.finish);
    }
  }
}

template <class Reduction, class Element>
__global__ void __launch_bounds__(256) staged_rows_kernel(const __grid_constant__ StagedArguments args) {
  extern __shared__ uint4 shared_memory[];
  wait_for_previous_kernel();
  let_next_kernel_start();
  const auto* input = static_cast<const Element*>(args.input);
  const uint32_t memory = shared_address(shared_memory);
  for (int64_t item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    const int64_t first_row = item * args.rows_per_tile;
    const int num_rows = static_cast<int>(min(static_cast<int64_t>(args.rows_per_tile), args.num_rows - first_row));
    const Frame<Element, false> frame(input + first_row * args.row_stride,
                                      (num_rows - 1) * args.row_stride + args.length,
                                      args.goes_on_after<kSlots<Element>>(first_row + num_rows - 1));
    for (unsigned v = threadIdx.x; v < frame.loadable(); v += blockDim.x) {
      copy_async(memory + v * sizeof(uint4), frame.vectors + v);
    }
    if (threadIdx.x == 0 && frame.loadable() < frame.num_vectors()) shared_memory[frame.loadable()] = frame.load_last();
    end_copies();
    wait_for_copies<0>();
    __syncthreads();
    const uint32_t staged = memory + frame.skip * sizeof(Element);
    const auto fold = [&]<int kLanes>() {
      fold_staged_rows<Reduction, Element, kLanes>(args, staged, first_row, num_rows);
    };
    switch (args.lanes_per_thread) {
      case 16:
        fold.template operator()<16>();
        break;
      case 8:
        fold.template operator()<8>();
        break;
      case 4:
        fold.template operator()<4>();
        break;
      default:
        fold.template operator()<2>();
    }
    __syncthreads();
  }
}

}  // namespace gpureduce::cuda
