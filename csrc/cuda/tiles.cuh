// Reductions over any strides. A block takes a tile: `units` neighbouring outputs (of kVector elements each) x `lanes`
// lanes of one leaf. A thread walks its lanes in bit-reversed order and folds them on a stack; the block folds its
// threads; the last block of a tile folds leaves and lane splits.
//
// A lane is split, top to bottom, as (lane of the thread | thread | block), so that each of the three folds is a fold
// in halves of what the one before left.
#pragma once

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
  bool narrow;  // positions, sizes, strides and places are below 2^31: 32-bit factors of 64-bit products
  Divider dividers[kMaxAxes];
  int64_t sizes[kMaxAxes], strides[kMaxAxes], places[kMaxAxes];

  // What Cursor::advance() needs to walk `step` positions on, where there are at most two axes (Plan::steps).
  int step_inner, wrap_size;
  int64_t step_offset, step_place, wrap_offset, wrap_place;

  AxisMap(const AxisList& list, int64_t positions, int vector, int64_t step = 0) : count(list.count) {
    constexpr int64_t kNarrow = int64_t{1} << 31;
    narrow = positions < kNarrow;
    for (int i = 0; i < count; i++) {
      const bool inner = i == count - 1;  // counted in vectors
      sizes[i] = inner ? list[i].size / vector : list[i].size;
      strides[i] = inner ? list[i].stride * vector : list[i].stride;
      places[i] = inner ? list[i].place * vector : list[i].place;
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
      for (int i = count - 1; i > 0; i--) {
        const uint32_t outer = dividers[i].quotient(rest);
        add(at, rest - outer * dividers[i].divisor, i);
        rest = outer;
      }
      if (count > 0) add(at, rest, 0);
    } else {
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

// A position that moves on by the map's step.
template <int kMaxAxes>
struct Cursor {
  typename AxisMap<kMaxAxes>::Location at;
  int inner = 0;  // coordinate along the second of two axes

  __device__ __forceinline__ void start(const AxisMap<kMaxAxes>& map, int64_t position, int64_t offset) {
    at = map.locate(position);
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
  int rows_of_unit;  // positions that lie side by side in one row of units: the lowest bits of the lane
  DType input_dtype, through, output_dtype;
  AxisMap<kMaxAxes> kept, reduced;
};

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
  static constexpr bool kSteps = kRounds > 1;

  // The fold, in `folded`, of all lanes of one leaf that a thread walks: lanes (q * lanes + y) * lane_splits + z for
  // every q. kLanes of them with kRounds elements each are in flight. A leaf is far shorter than 2^31 (core/order.h).
  static __device__ __forceinline__ void leaf(const Arguments& args, int64_t unit_offset, int64_t start, int length,
                                              int y, int z, HalvesStack<Reduction, kVector> stack,
                                              Value (&folded)[kVector]) {
    const int bits = 31 - __clz(args.lanes_per_thread);
    for (int c = 0; c < args.lanes_per_thread; c += kLanes) {
      Value values[kLanes][kVector];
      int first[kLanes];
      Cursor<kMaxMapAxes> cursors[kLanes];
#pragma unroll
      for (int l = 0; l < kLanes; l++) {
        const int q = reverse_bits(c + l, bits);
        first[l] = c + l < args.lanes_per_thread ? (q * args.lanes + y) * args.lane_splits + z : length;
        if (kSteps && first[l] < length) cursors[l].start(args.reduced, start + first[l], unit_offset);
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
              if constexpr (kSteps) {
                units[l][r].load(args, cursors[l].at.offset);
                places[l][r] = cursors[l].at.place;
                cursors[l].advance(args.reduced);
              } else {
                const auto at = args.reduced.locate(start + i);
                units[l][r].load(args, unit_offset + at.offset);
                places[l][r] = at.place;
              }
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
__global__ void __launch_bounds__(256, kVector > 1   ? 2
                                       : kRounds > 1 ? 3
                                                     : 4)
    tiles_kernel(const typename TileWalk<Reduction, Element, kVector, kLanes, kRounds>::Arguments args) {
  using Walk = TileWalk<Reduction, Element, kVector, kLanes, kRounds>;
  using Value = typename Reduction::Value;
  extern __shared__ uint4 shared_memory[];
  wait_for_previous_kernel();

  const int thread = threadIdx.x, row_values = args.units * kVector, outputs = row_values / args.rows_of_unit;
  const int x = args.lanes_first ? thread / args.lanes : thread % args.units;
  const int y = args.lanes_first ? thread % args.lanes : thread / args.units;
  const int padded_leaves = args.num_leaves == 1 ? 1 : 1 << (32 - __clz(args.num_leaves - 1));
  const int num_entries = args.lane_splits * padded_leaves;
  auto* block_values = reinterpret_cast<Value*>(shared_memory);
  auto* stack = block_values + max(args.lanes * row_values, static_cast<int>(blockDim.x)) + thread;

  if (args.lanes == 1 && num_entries == 1 && args.rows_of_unit == 1) {
    // Nothing is shared: a thread has its outputs to itself.
    const auto step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t unit = static_cast<int64_t>(blockIdx.x) * blockDim.x + thread; unit < args.num_units; unit += step) {
      const auto at = args.kept.locate(unit);
      Value folded[kVector];
      Walk::leaf(args, at.offset, 0, static_cast<int>(args.length), 0, 0, {stack, static_cast<int>(blockDim.x)},
                 folded);
      store_neighbours<Reduction>(args.output, at.place, args.output_dtype, folded, args.divisor);
    }
    return;
  }

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
        for (int k = 0; k < kVector; k++) block_values[y * row_values + x * kVector + k] = folded[k];
      }
      fold_shared<Reduction>(block_values, args.lanes, row_values);
      if (args.rows_of_unit > 1) fold_shared<Reduction>(block_values, args.rows_of_unit, outputs);
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
        // A row of several positions holds all outputs, one after the other.
        const int64_t place = args.rows_of_unit > 1 ? j : args.kept.locate(of).place + j % kVector;
        store(args.output, place, args.output_dtype, Reduction::finish(block_values[j], args.divisor));
      }
    }
    __syncthreads();
  }
}

// Up to kThinLength elements each: a thread takes kThinUnits units, all their elements in flight, and shares nothing.
template <class Reduction, class Element, int kVector>
__global__ void __launch_bounds__(256) thin_kernel(const TilesArguments<kMaxVectorAxes> args) {
  using Value = typename Reduction::Value;
  wait_for_previous_kernel();
  for (int64_t item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    const int64_t first_unit = item * (kThinUnits * blockDim.x) + threadIdx.x;
    Unit<Element, kVector> units[kThinUnits][kThinLength];
#pragma unroll
    for (int u = 0; u < kThinUnits; u++) {
      const int64_t unit = first_unit + u * blockDim.x;
      if (unit < args.num_units) {
        const int64_t offset = args.kept.locate(unit).offset;
#pragma unroll
        for (int i = 0; i < kThinLength; i++) {
          if (i < args.length) units[u][i].load(args, offset + args.reduced.locate(i).offset);
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kThinUnits; u++) {
      const int64_t unit = first_unit + u * blockDim.x;
      if (unit < args.num_units) {
        Value folded[kVector];
#pragma unroll
        for (int k = 0; k < kVector; k++) {
          Value lanes[kThinLength];
#pragma unroll
          for (int i = 0; i < kThinLength; i++) {
            lanes[i] = Reduction::identity();
            if (i < args.length) {
              lanes[i] = Reduction::take(lanes[i], units[u][i].template at<typename Reduction::Input>(k),
                                         args.reduced.locate(i).place);
            }
          }
          folded[k] = fold_registers<Reduction>(lanes);
        }
        store_neighbours<Reduction>(args.output, args.kept.locate(unit).place, args.output_dtype, folded, args.divisor);
      }
    }
  }
}

}  // namespace gpureduce::cuda
