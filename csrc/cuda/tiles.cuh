// Reductions over any strides. A block takes a tile: `units` neighbouring outputs (of kVector elements each) x `lanes`
// lanes of one leaf. A thread walks its lanes in bit-reversed order and folds them on a stack; the block folds its
// threads; the last block of a tile folds leaves and lane splits.
//
// A lane is split, top to bottom, as (lane of the thread | thread | block), so that each of the three folds is a fold
// in halves of what the one before left.
#pragma once

#include <algorithm>
#include <type_traits>

#include "cuda/fold.cuh"
#include "cuda/launch.h"

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

// Where position p of merged axes lies.
template <int kMaxAxes>
struct AxisMap {
  int count;
  bool narrow;  // positions fit Divider
  Divider dividers[kMaxAxes];
  int64_t sizes[kMaxAxes], strides[kMaxAxes], places[kMaxAxes];

  AxisMap(const AxisList& list, int64_t positions, int vector) : count(list.count) {
    narrow = positions < int64_t{1} << 31;
    for (int i = 0; i < count; i++) {
      const bool inner = i == count - 1;  // counted in vectors
      sizes[i] = inner ? list[i].size / vector : list[i].size;
      strides[i] = inner ? list[i].stride * vector : list[i].stride;
      places[i] = inner ? list[i].place * vector : list[i].place;
      if (narrow) dividers[i] = Divider(sizes[i]);
    }
  }

  struct Location {
    int64_t offset, place;
  };
  __device__ __forceinline__ Location locate(int64_t position) const {
    Location at{0, 0};
    for (int i = count - 1; i > 0; i--) {
      const int64_t outer = narrow ? dividers[i].quotient(static_cast<uint32_t>(position)) : position / sizes[i];
      const int64_t inner = position - outer * sizes[i];
      at.offset += inner * strides[i];
      at.place += inner * places[i];
      position = outer;
    }
    if (count > 0) {
      at.offset += position * strides[0];
      at.place += position * places[0];
    }
    return at;
  }
};

template <int kMaxAxes>
struct TilesArguments {
  const void* input;
  void* output;
  unsigned* counters;
  void* partials;
  double divisor;
  int64_t length, leaf_elements;
  int64_t num_units, num_tiles, num_items;
  int order_lanes, num_leaves;
  int units, lanes, lanes_per_thread, lane_splits;
  int splits, leaves_per_split;
  bool lanes_first;
  DType input_dtype, through, output_dtype;
  AxisMap<kMaxAxes> kept, reduced;
};

// Outputs that a thread takes at once: 16 bytes of them, fewer where their lanes would fill the registers.
template <class Reduction, class Element>
inline constexpr int kTileVector = static_cast<int>(
    std::min({16 / sizeof(Element), std::max<size_t>(1, 64 / sizeof(typename Reduction::Value)), size_t{8}}));
template <class Reduction, class Acc>
inline constexpr int kTileVector<Reduction, Converted<Acc>> = 1;

// kVector neighbouring elements, as they lie in memory until they are used.
template <class Element, int kVector>
struct Unit {
  static constexpr int kBytes = sizeof(Element) * kVector;
  using Word = std::conditional_t<
      kVector == 1, Element,
      std::conditional_t<kBytes == 16, uint4,
                         std::conditional_t<kBytes == 8, uint2, std::conditional_t<kBytes == 4, uint32_t, uint16_t>>>>;
  Word word;

  template <class Arguments>
  __device__ __forceinline__ void load(const Arguments& args, int64_t offset) {
    const auto* address = reinterpret_cast<const Word*>(static_cast<const Element*>(args.input) + offset);
    if constexpr (std::is_same_v<Word, uint4>) {
      word = load_streaming(address);
    } else {
      word = *address;
    }
  }
  template <class Input>
  __device__ __forceinline__ Input at(int k) const {
    Element elements[kVector];
    memcpy(elements, &word, sizeof(word));
    return widen<Input>(elements[k]);
  }
};

// Elements whose dtype is known at run time only are converted as they are read.
template <class Acc>
struct Unit<Converted<Acc>, 1> {
  Acc value;

  template <class Arguments>
  __device__ __forceinline__ void load(const Arguments& args, int64_t offset) {
    value = read_converted<Acc>(args.input, offset, args.input_dtype, args.through);
  }
  template <class Input>
  __device__ __forceinline__ Input at(int) const {
    return value;
  }
};

// Threads of the block fold v[0 .. count * stride) in halves down to v[0 .. stride). Barriers before and after.
template <class Reduction, class Value>
__device__ __forceinline__ void fold_shared(Value* v, int count, int stride) {
  __syncthreads();
  while (count > 1) {
    count /= 2;
    const int rest = count * stride;
    for (int i = threadIdx.x; i < rest; i += blockDim.x) v[i] = Reduction::merge(v[i], v[i + rest]);
    __syncthreads();
  }
}

template <class Reduction, class Element, int kVector, int kLanes, int kRounds>
struct TileWalk {
  using Value = typename Reduction::Value;
  using Input = typename Reduction::Input;
  static constexpr int kMaxMapAxes = kVector == 1 ? kMaxAxes : kMaxVectorAxes;
  using Arguments = TilesArguments<kMaxMapAxes>;

  // The fold, in `folded`, of all lanes of one leaf that a thread walks: lanes (q * lanes + y) * lane_splits + z for
  // every q. kLanes of them with kRounds elements each are in flight. A leaf is far shorter than 2^31 (core/order.h).
  static __device__ __forceinline__ void leaf(const Arguments& args, int64_t unit_offset, int64_t start, int length,
                                              int y, int z, HalvesStack<Reduction, kVector> stack,
                                              Value (&folded)[kVector]) {
    const int bits = 31 - __clz(args.lanes_per_thread);
    for (int c = 0; c < args.lanes_per_thread; c += kLanes) {
      Value values[kLanes][kVector];
      int first[kLanes];
#pragma unroll
      for (int l = 0; l < kLanes; l++) {
        const int q = reverse_bits(c + l, bits);
        first[l] = c + l < args.lanes_per_thread ? (q * args.lanes + y) * args.lane_splits + z : length;
#pragma unroll
        for (int k = 0; k < kVector; k++) values[l][k] = Reduction::identity();
      }
      for (int round = 0; round < length; round += kRounds * args.order_lanes) {
        Unit<Element, kVector> units[kLanes][kRounds];
        int64_t places[kLanes][kRounds];
#pragma unroll
        for (int l = 0; l < kLanes; l++) {
#pragma unroll
          for (int r = 0; r < kRounds; r++) {
            const int i = round + r * args.order_lanes + first[l];
            if (i < length) {
              const auto at = args.reduced.locate(start + i);
              units[l][r].load(args, unit_offset + at.offset);
              places[l][r] = at.place;
            }
          }
        }
#pragma unroll
        for (int l = 0; l < kLanes; l++) {
#pragma unroll
          for (int r = 0; r < kRounds; r++) {
            if (round + r * args.order_lanes + first[l] < length) {
#pragma unroll
              for (int k = 0; k < kVector; k++) {
                values[l][k] = Reduction::take(values[l][k], units[l][r].template at<Input>(k), places[l][r]);
              }
            }
          }
        }
      }
      // Lanes came in bit-reversed order: neighbours first is halves.
#pragma unroll
      for (int step = 1; step < kLanes; step *= 2) {
#pragma unroll
        for (int l = 0; l < kLanes; l += 2 * step) {
#pragma unroll
          for (int k = 0; k < kVector; k++) values[l][k] = Reduction::merge(values[l][k], values[l + step][k]);
        }
      }
#pragma unroll
      for (int k = 0; k < kVector; k++) folded[k] = values[0][k];
      stack.push(folded, c / kLanes, c + kLanes >= args.lanes_per_thread);
    }
  }

  // Partial results of one output: entry (z, leaf) for z < lane_splits and leaf < num_leaves padded to a power of two,
  // `stride` values apart. This thread folds entries first, first + step, ...
  static __device__ __forceinline__ Value entries(const Value* partials, int num_entries, int padded_leaves,
                                                  int num_leaves, int first, int step, int stride,
                                                  HalvesStack<Reduction, 1> stack) {
    constexpr int kBatch = 8;
    const int count = num_entries / step, bits = 31 - __clz(count);
    Value folded[1];
    for (int c = 0; c < count; c += kBatch) {
      Value batch[kBatch];
#pragma unroll
      for (int b = 0; b < kBatch; b++) {
        const int entry = reverse_bits(c + b, bits) * step + first;
        const bool there = c + b < count && (entry & (padded_leaves - 1)) < num_leaves;
        batch[b] =
            there ? load_shared_by_blocks(partials + static_cast<int64_t>(entry) * stride) : Reduction::identity();
      }
#pragma unroll
      for (int s = 1; s < kBatch; s *= 2) {
#pragma unroll
        for (int b = 0; b < kBatch; b += 2 * s) batch[b] = Reduction::merge(batch[b], batch[b + s]);
      }
      folded[0] = batch[0];
      stack.push(folded, c / kBatch, c + kBatch >= count);
    }
    return folded[0];
  }
};

template <class Reduction, class Element, int kVector, int kLanes, int kRounds>
__global__ void __launch_bounds__(256)
    tiles_kernel(const typename TileWalk<Reduction, Element, kVector, kLanes, kRounds>::Arguments args) {
  using Walk = TileWalk<Reduction, Element, kVector, kLanes, kRounds>;
  using Value = typename Reduction::Value;
  extern __shared__ uint4 shared_memory[];
  wait_for_previous_kernel();

  const int thread = threadIdx.x, outputs = args.units * kVector;
  const int x = args.lanes_first ? thread / args.lanes : thread % args.units;
  const int y = args.lanes_first ? thread % args.lanes : thread / args.units;
  const int padded_leaves = args.num_leaves == 1 ? 1 : 1 << (32 - __clz(args.num_leaves - 1));
  const int num_entries = args.lane_splits * padded_leaves;
  auto* block_values = reinterpret_cast<Value*>(shared_memory);
  auto* stack = block_values + max(args.lanes * outputs, static_cast<int>(blockDim.x)) + thread;

  for (int64_t item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    const int64_t tile = item % args.num_tiles;
    const int share = static_cast<int>(item / args.num_tiles);
    const int split = share / args.lane_splits, z = share % args.lane_splits;
    const int first_leaf = split * args.leaves_per_split;
    const int end_leaf = min(first_leaf + args.leaves_per_split, args.num_leaves);
    const int64_t unit = tile * args.units + x;
    const bool active = x < args.units && y < args.lanes && unit < args.num_units;
    const int64_t offset = active ? args.kept.locate(unit).offset : 0;
    Value* partials = static_cast<Value*>(args.partials) + tile * num_entries * outputs;

    for (int leaf = first_leaf; leaf < end_leaf; leaf++) {
      const int64_t start = leaf * args.leaf_elements;
      const int length = static_cast<int>(leaf == args.num_leaves - 1 ? args.length - start : args.leaf_elements);
      Value folded[kVector];
      Walk::leaf(args, offset, start, active ? length : 0, y, z, {stack, static_cast<int>(blockDim.x)}, folded);
      __syncthreads();  // the last leaf's values were read
      if (x < args.units && y < args.lanes) {
#pragma unroll
        for (int k = 0; k < kVector; k++) block_values[y * outputs + x * kVector + k] = folded[k];
      }
      fold_shared<Reduction>(block_values, args.lanes, outputs);
      if (num_entries > 1) {
        for (int j = thread; j < outputs; j += blockDim.x) {
          partials[static_cast<int64_t>(z * padded_leaves + leaf) * outputs + j] = block_values[j];
        }
      }
    }

    if (num_entries > 1) {
      const int sharers = args.splits * args.lane_splits;
      __shared__ bool is_last;
      __syncthreads();
      if (thread == 0) is_last = sharers == 1 || draw_ticket(args.counters + tile, sharers - 1) == sharers - 1u;
      __syncthreads();
      if (!is_last) continue;
      int step = 1;
      while (2 * step * outputs <= static_cast<int>(blockDim.x) && 2 * step <= num_entries) step *= 2;
      for (int i = thread; i < step * outputs; i += blockDim.x) {
        block_values[i] = Walk::entries(partials + i % outputs, num_entries, padded_leaves, args.num_leaves,
                                        i / outputs, step, outputs, {stack, static_cast<int>(blockDim.x)});
      }
      fold_shared<Reduction>(block_values, step, outputs);
    }
    for (int j = thread; j < outputs; j += blockDim.x) {
      const int64_t of = tile * args.units + j / kVector;
      if (of < args.num_units) {
        store(args.output, args.kept.locate(of).place + j % kVector, args.output_dtype,
              Reduction::finish(block_values[j], args.divisor));
      }
    }
    __syncthreads();
  }
}

}  // namespace gpureduce::cuda
