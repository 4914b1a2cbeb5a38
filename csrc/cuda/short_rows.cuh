// Rows of a few elements, up to 4 KiB: hardly more than their lanes (core/order.h).
#pragma once

#include "cuda/rows.cuh"

namespace gpureduce::cuda {

// A warp copies a tile of rows to shared memory; there a thread has a row to itself, or shares it with few others, so
// that hardly anything is shuffled, and all threads have results to finish.
//
// A lane is split, top to bottom, as (vector of the thread | thread | slot).
struct ShortArguments : RowsArguments {
  int num_vectors;   // that hold a row
  int lane_vectors;  // that hold the lanes
  int rows_per_tile;
  int copied_vectors;  // of a row, where rows are copied one by one
  Divider by_copied_vectors;
};

// Rows of whole, aligned vectors. Threads read the same vector of rows that follow one another: the vectors of each
// line of 128 bytes are permuted by the line's number, so that few meet in a bank. Odd rows do not meet as they lie.
template <class Element, bool kShifted>
struct ShortTile {
  static constexpr unsigned kLineVectors = 8;
  static constexpr int kVectors = kShortTileVectors;
  uint32_t memory;
  int row_vectors;
  unsigned permuted;  // bits of the line's number

  __device__ __forceinline__ ShortTile(const void* memory, const ShortArguments& args, int64_t)
      : memory(shared_address(memory)),
        row_vectors(args.num_vectors),
        permuted(args.num_vectors % 2 == 0 ? kLineVectors - 1 : 0) {}
  __device__ __forceinline__ uint32_t place(unsigned i) const {
    return memory + (i ^ (i / kLineVectors & permuted)) * static_cast<uint32_t>(sizeof(uint4));
  }
  __device__ __forceinline__ uint4 load(int row, int number) const {
    return load_shared<uint4>(place(row * row_vectors + number));
  }

  __device__ __forceinline__ void copy(const ShortArguments& args, int64_t first_row, int num_rows, int lane) const {
    const int64_t stride = args.row_stride / kSlots<Element>;
    const auto* from = static_cast<const uint4*>(args.input) + first_row * stride;
    const int count = num_rows * row_vectors;
    if (count == kVectors && stride == row_vectors) {
      // Every second time a warp's vectors lie alike.
      const uint32_t places[2] = {place(lane), place(lane + kWarp)};
#pragma unroll
      for (int i = 0; i < kVectors / kWarp; i++) {
        copy_async(places[i % 2] + i / 2 * (2 * kWarp * sizeof(uint4)), from + lane + i * kWarp);
      }
    } else {
#pragma unroll 1
      for (int i = lane; i < count; i += kWarp) {
        const int row = static_cast<int>(args.by_copied_vectors.quotient(i));
        copy_async(place(i), from + row * stride + (i - row * row_vectors));
      }
    }
  }
};

// Rows of any length and alignment that lie (nearly) side by side: they are copied as they lie, and shifted as they are
// read. Where all start alike, at multiples of 16 bytes from one another, they are copied one by one, an odd number of
// vectors apart.
template <class Element>
struct ShortTile<Element, true> {
  static constexpr int kVectors = kShiftedTileVectors;
  uint4* vectors;
  uint32_t first;  // element of the first row
  int row_bytes;

  __device__ __forceinline__ ShortTile(uint4* memory, const ShortArguments& args, int64_t first_row) : vectors(memory) {
    const auto address =
        reinterpret_cast<uintptr_t>(static_cast<const Element*>(args.input) + first_row * args.row_stride);
    first = shared_address(memory) + static_cast<uint32_t>(address % sizeof(uint4));
    row_bytes = args.copied_vectors == 0 ? static_cast<int>(args.row_stride) * sizeof(Element)
                                         : (args.copied_vectors | 1) * static_cast<int>(sizeof(uint4));
  }
  __device__ __forceinline__ uint32_t element(int row, int i) const {
    return first + row * row_bytes + i * static_cast<int>(sizeof(Element));
  }
  // Bytes behind the row, and behind the tile, come along.
  __device__ __forceinline__ uint4 load(int row, int number) const {
    const uint32_t address = element(row, number * kSlots<Element>);
    if constexpr (sizeof(Element) >= sizeof(uint64_t)) {
      const auto low = load_shared<uint2>(address), high = load_shared<uint2>(address + sizeof(uint2));
      return {low.x, low.y, high.x, high.y};
    } else {
      const uint32_t aligned = address & ~3u, bits = address % 4 * 8;
      constexpr int kWords = 4 + (sizeof(Element) < sizeof(uint32_t));
      uint32_t words[kWords];
#pragma unroll
      for (int i = 0; i < kWords; i++) words[i] = load_shared<uint32_t>(aligned + i * sizeof(uint32_t));
      if constexpr (kWords > 4) {
#pragma unroll
        for (int i = 0; i < 4; i++) words[i] = __funnelshift_r(words[i], words[i + 1], bits);
      }
      return {words[0], words[1], words[2], words[3]};
    }
  }

  __device__ __forceinline__ void copy(const ShortArguments& args, int64_t first_row, int num_rows, int lane) const {
    const auto* elements = static_cast<const Element*>(args.input) + first_row * args.row_stride;
    const bool goes_on = args.goes_on_after<kSlots<Element>>(first_row + num_rows - 1);
    const uint32_t memory = shared_address(vectors);
    if (args.copied_vectors == 0) {
      const Frame<Element, false> all(elements, (num_rows - 1) * args.row_stride + args.length, goes_on);
#pragma unroll 4
      for (unsigned v = lane; v < all.loadable(); v += kWarp) copy_async(memory + v * sizeof(uint4), all.vectors + v);
      if (lane == 0 && all.loadable() < all.num_vectors()) vectors[all.loadable()] = all.load_last();
    } else {
      const Frame<Element, false> last(elements + (num_rows - 1) * args.row_stride, args.length, goes_on);
      const int pitch = args.copied_vectors | 1, end = (num_rows - 1) * args.copied_vectors + last.loadable();
      const Frame<Element, false> row_0(elements, args.length, true);
#pragma unroll 1
      for (int i = lane; i < end; i += kWarp) {
        const int row = static_cast<int>(args.by_copied_vectors.quotient(i)), v = i - row * args.copied_vectors;
        const uint4* vectors_of_row = row_0.vectors + row * (args.row_stride / kSlots<Element>);
        copy_async(memory + (row * pitch + v) * sizeof(uint4), vectors_of_row + v);
      }
      if (lane == 0 && last.loadable() < last.num_vectors()) {
        vectors[(num_rows - 1) * pitch + last.loadable()] = last.load_last();
      }
    }
  }
};

// What a thread takes of a row.
template <class Reduction, class Element, int kVectors, bool kShifted>
struct ShortRow {
  // Few vectors are those of few lanes, or of rows that are longer than their lanes.
  static constexpr bool kHasRounds = kShifted && kVectors == kFewShortVectors;
  const ShortArguments& args;
  const ShortTile<Element, kShifted>& tile;
  int row, thread;

  // Takes vectors v, v + kStep, ... of the thread's lanes, at most kVectors; v is there.
  template <int kStep, class R>
  __device__ __forceinline__ void take(State<R, Element>& state, int v, const FocusOf<R>& focus) const {
    const int threads = args.threads_per_row;
    if constexpr (Joined<R>) {
      take<kStep>(state.of_lanes, v, focus);
      take<kStep>(state.of_thread, v, {});
    } else if constexpr (!R::kOrdered) {
      state.begin(0, focus);
      const int length = static_cast<int>(args.length), whole = length / kSlots<Element>;
#pragma unroll
      for (int i = 0; i < kVectors; i++) {
        const int number = i * threads + thread;
        if (number < whole) state.take(tile.load(row, number), number);
      }
      if constexpr (kShifted) {
        const int rest = length % kSlots<Element>;
        if (rest > 0 && (whole & (threads - 1)) == thread) take_rest<R>(state, whole, rest);
      }
      state.finish();
    } else if constexpr (kStep == kVectors) {
      state.begin(0, focus);
      const auto take_vector = [&](int number) {
        if constexpr (kShifted) {
          const int left = static_cast<int>(args.length) - number * kSlots<Element>;
          if (!has_neutral<R> || left < kSlots<Element>) {
            take_rest<R>(state, number, left);
            return;
          }
        }
        state.take(tile.load(row, number), number);
      };
      if constexpr (kHasRounds) {
#pragma unroll 1
        for (int number = v * threads + thread; number < args.num_vectors; number += args.lane_vectors) {
          take_vector(number);
        }
      } else {
        take_vector(v * threads + thread);
      }
    } else {
      take<2 * kStep>(state, v, focus);
      if ((v + kStep) * threads < min(args.num_vectors, args.lane_vectors)) {
        State<R, Element> other;
        take<2 * kStep>(other, v + kStep, focus);
        state.absorb(other);
      }
    }
  }

 private:
  // The first `count` elements of vector `number`; none, where the row has not so many.
  template <class R>
  __device__ __forceinline__ void take_rest(State<R, Element>& state, int number, int count) const {
    const auto vector = tile.load(row, min(number, args.num_vectors - 1));
    if constexpr (has_neutral<R> && !is_indexed<R>()) {
      state.take(masked<R, Element>(vector, 0, max(count, 0)), number);
    } else {
      state.take_some(vector, number, 0, count);
    }
  }
};

// A multiprocessor is to hold so many threads: six blocks of lanes of two words, eight of others.
template <class Reduction, class Element, int kVectors, bool kShifted>
__global__ void __launch_bounds__(kShortThreads, (has_wide_lanes<Reduction>() ? 768 : 1024) / kShortThreads)
    short_rows_kernel(const __grid_constant__ ShortArguments args) {
  using Tile = ShortTile<Element, kShifted>;
  // What is copied from one line to parts of two is read twice.
  __shared__ alignas(128) uint4 memory[kShortThreads / kWarp][Tile::kVectors];
  const int threads = args.threads_per_row, log2_threads = log2_on_device(threads), groups = kWarp >> log2_threads;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int thread = lane & (threads - 1), group = lane >> log2_threads;
  for (int64_t item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    const int64_t first_row = (item * (blockDim.x / kWarp) + warp) * args.rows_per_tile;
    if (first_row >= args.num_rows) return;
    const int num_rows = static_cast<int>(min(int64_t{args.rows_per_tile}, args.num_rows - first_row));
    if (blockIdx.x < args.ahead_blocks && lane == 0) {
      const int64_t count = (num_rows - 1) * args.row_stride + args.length;
      prefetch(static_cast<const Element*>(args.input) + first_row * args.row_stride, count * int64_t{sizeof(Element)});
    }
    wait_for_previous_kernel();
    let_next_kernel_start();
    const Tile tile(memory[warp], args, first_row);
    tile.copy(args, first_row, num_rows, lane);
    end_copies();
    wait_for_copies<0>();
    __syncwarp();
    for (int done = 0; done < num_rows; done += groups) {
      const bool there = done + group < num_rows;
      const ShortRow<Reduction, Element, kVectors, kShifted> row{args, tile, there ? done + group : 0, thread};
      FocusOf<Reduction> focus{};
      if constexpr (Focused<Reduction> && kShifted) {
        focus = first_focus<Reduction>(args.finish, [&](int i) {
          const auto element = load_shared<Element>(tile.element(row.row, min(i, static_cast<int>(args.length) - 1)));
          return widen<typename Reduction::Input>(element);
        });
      } else if constexpr (Focused<Reduction>) {
        focus = focus_of<Reduction, Element>(tile.load(row.row, 0), args.finish);
      }
      for (bool again = true; again;) {
        State<Reduction, Element> state;
        row.template take<1>(state, 0, focus);
        const auto value = fold_states(state, threads / 2);
        again = false;
        if constexpr (Focused<Reduction>) {
          again = __any_sync(kFullMask, Reduction::refocus(focus, value, args.finish.num_elements, args.finish));
        }
        if (again || !there || thread > 0) continue;
        const auto part = make_part<Reduction>(value, focus, args.finish.num_elements, args.finish);
        store<Reduction>(args.outputs, first_row + done + group, part, args.finish);
      }
    }
    __syncwarp();
  }
}

// Of a row of kLength elements, where element(i) is number i.
template <class Reduction, int kLength, class ElementAt>
__device__ __forceinline__ typename Reduction::Value fold_tiny_row(ElementAt element) {
  constexpr int kLanes = next_power_of_two(kLength);
  typename Reduction::Value lanes[kLanes];
#pragma unroll
  for (int i = 0; i < kLanes; i++) {
    lanes[i] = Reduction::identity();
    if (i < kLength) lanes[i] = Reduction::take(lanes[i], widen<typename Reduction::Input>(element(i)), i);
  }
  return fold_registers<Reduction>(lanes);
}

// Rows that are shorter than a vector, without gaps: a thread takes groups of rows that fill whole vectors, and stores
// the rows of a group at once.
template <class Reduction, class Element, int kLength>
__device__ __forceinline__ void reduce_tiny_rows(const RowsArguments& args, uint4* store_memory) {
  using Value = typename Reduction::Value;
  constexpr int kCount = kSlots<Element>;
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
        results[r] = fold_tiny_row<Reduction, kLength>([&](int i) { return elements[r * kLength + i]; });
      }
      store_neighbours<Reduction>(args.outputs, group * kTiny.rows, results, group < num_groups, args.finish,
                                  store_memory);
    }
  }
  // What fills no group.
  const int64_t row = num_groups * kTiny.rows + threadIdx.x;
  if (blockIdx.x == 0 && row < args.num_rows) {
    const auto* elements = static_cast<const Element*>(args.input) + row * kLength;
    const Value value = fold_tiny_row<Reduction, kLength>([&](int i) { return elements[i]; });
    store<Reduction>(args.outputs, row, value, args.finish);
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

}  // namespace gpureduce::cuda
