// Reductions along an axis whose positions are rows of neighbouring outputs: the columns of a matrix, or of many.
//
// A block takes a tile: `vectors` vectors of a row (kVector outputs each) x `lanes` lanes of one leaf. A thread walks
// its lanes in bit-reversed order and folds them on a stack; the block folds its threads; leaves that a block walks one
// after the other come in bit-reversed order too and are folded on a stack; what blocks share is folded by the last
// one.
//
// Every row is read in its own frame, as in rows.cuh: all rows of a lane, and all lanes of a thread, are shifted alike
// (the planner sees to it), so that a thread's slots are the same outputs throughout. Where rows are shifted, a tile
// has a vector more than its outputs fill.
//
// Rows narrower than a vector come joined: `rows_of_unit` of them that fill whole vectors are one row of so many times
// the outputs, and fold after all else in their leaf, being the lowest bits of the lane.
#pragma once

#include "cuda/axes.cuh"
#include "cuda/rows.cuh"
#include "reductions/kernel_traits.h"

namespace gpureduce::cuda {

struct ColumnsArguments {
  const void* input;
  Outputs outputs;
  unsigned* counters;
  void* partials;
  FinishArguments finish;
  int64_t row_stride, row_place;  // of the reduced axis, in elements; joined rows count as one
  int64_t length, leaf_elements;  // in rows
  int64_t width, place;           // of a row: outputs, and from one to the next in the output
  int64_t reduced_length;         // elements of one output: the last of joined rows may be short
  int64_t tiles_per_row, num_tiles, num_items;
  int order_lanes, num_leaves;
  int vectors, lanes, lanes_per_thread, lane_splits, splits;
  int tile_outputs;
  int rows_of_unit;
  bool cluster;
  bool is_small;      // fewer blocks than multiprocessors
  bool owns_outputs;  // a thread shares its outputs with no other: nothing to fold in the block
  ColumnsShared shared;
  AxisMap<kMaxVectorAxes> kept;  // the outer axes: one matrix each
  const void* end;               // of the input
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

  static __device__ __forceinline__ Unit filled_with(Element element) {
    Element elements[kVector];
#pragma unroll
    for (int k = 0; k < kVector; k++) elements[k] = element;
    Unit unit;
    memcpy(&unit.word, elements, sizeof(unit.word));
    return unit;
  }
  __device__ __forceinline__ void load(const Element* address) {
    const auto* words = reinterpret_cast<const Word*>(address);
    if constexpr (std::is_same_v<Word, uint4>) {
      word = load_streaming(words);
    } else {
      word = *words;
    }
  }
  template <class Input>
  __device__ __forceinline__ Input at(int k) const {
    Element elements[kVector];
    memcpy(elements, &word, sizeof(word));
    return widen<Input>(elements[k]);
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

// What one thread of a tile has to know of its vector.
template <class Reduction, class Element>
struct ColumnsThread {
  static constexpr int kVector = kTileVector<Reduction, Element>;
  const Element* elements;  // of row 0 of the matrix: slot `shift`
  int y, z;
  int first_output;         // of the tile, of slot 0: minus the shift in the first vector
  const Element* last_row;  // where the thread reads it
  int last_slots;           // of it, that are elements
  bool is_last_short;       // not all are
  int position[kVector];    // of the slot's element among joined rows
  FocusOf<Reduction> focus[kVector];
};

// The walk of one leaf by one thread.
template <class Reduction, class Element, int kLanes, int kRounds>
struct ColumnsWalk {
  static constexpr int kVector = kTileVector<Reduction, Element>;
  using Value = typename Reduction::Value;
  using Input = typename Reduction::Input;
  using Vector = Unit<Element, kVector>;

  static __device__ __forceinline__ const Element* aligned_down(const Element* elements) {
    const auto address = reinterpret_cast<uintptr_t>(elements);
    return reinterpret_cast<const Element*>(address - address % sizeof(Vector));
  }

  // The last row, of which only slots before `end` may be read: the others are no elements, or nobody's.
  static __device__ __noinline__ Vector load_last(const Element* row, int slots) {
    alignas(Vector) Element elements[kVector] = {};
#pragma unroll 1
    for (int k = 0; k < slots; k++) elements[k] = row[k];
    return {*reinterpret_cast<const typename Vector::Word*>(elements)};
  }

  static __device__ __forceinline__ void take(const ColumnsArguments& args, const ColumnsThread<Reduction, Element>& me,
                                              Value (&values)[kVector], const Vector& unit, int64_t row) {
#pragma unroll
    for (int k = 0; k < kVector; k++) take_slot(args, me, values, unit, row, k);
  }
  static __device__ __forceinline__ void take_slot(const ColumnsArguments& args,
                                                   const ColumnsThread<Reduction, Element>& me,
                                                   Value (&values)[kVector], const Vector& unit, int64_t row, int k) {
    const Input x = unit.template at<Input>(k);
    const int64_t index = row * args.row_place + me.position[k];
    if constexpr (requires { Reduction::take_in_turn(values[k], x, index); }) {
      values[k] = Reduction::take_in_turn(values[k], x, index);
    } else {
      values[k] = take_element<Reduction>(values[k], x, index, me.focus[k]);
    }
  }

  // Lane number c of the thread's, in bit-reversed order: lanes (q * lanes + y) * lane_splits + z for every q.
  static constexpr int kNoLane = 1 << 30;  // no leaf is as long
  static __device__ __forceinline__ int lane_of(const ColumnsArguments& args,
                                                const ColumnsThread<Reduction, Element>& me, int c) {
    const int q = reverse_bits(c, 31 - __clz(args.lanes_per_thread));
    return c < args.lanes_per_thread ? (q * args.lanes + me.y) * args.lane_splits + me.z : kNoLane;
  }

  // The fold of the thread's lanes of one leaf, in `folded`. A leaf is far shorter than 2^31 (core/order.h).
  static __device__ __forceinline__ void leaf(const ColumnsArguments& args, const ColumnsThread<Reduction, Element>& me,
                                              int64_t start, int length, HalvesStack<Reduction, Value, kVector> stack,
                                              Value (&folded)[kVector]) {
    if constexpr (packs_columns<Reduction, Element>) {
      packed(args, me, start, length, folded);
    } else if constexpr (kRounds == 1) {
      tree(args, me, start, length, stack, folded);
    } else {
      rounds(args, me, start, length, stack, folded);
    }
  }

 private:
  // Of a leaf with an element or none in each lane.
  static __device__ __forceinline__ void tree(const ColumnsArguments& args, const ColumnsThread<Reduction, Element>& me,
                                              int64_t start, int length, HalvesStack<Reduction, Value, kVector> stack,
                                              Value (&folded)[kVector]) {
    const bool has_last = me.is_last_short && start + length == args.length;
    length -= has_last;
    const int last_lane = has_last ? length : -1;
    Vector neutral{};
    if constexpr (has_neutral<Reduction>) neutral = Vector::filled_with(Reduction::neutral());
    for (int c = 0; c < args.lanes_per_thread; c += kLanes) {
      Vector units[kLanes];
#pragma unroll
      for (int l = 0; l < kLanes; l++) {
        const int i = lane_of(args, me, c + l);
        units[l] = neutral;
        if (i < length) units[l].load(aligned_down(me.elements + (start + i) * args.row_stride));
      }
      // As they come, so that few are unfolded at a time: neighbours first is halves.
      Value unfolded[std::bit_width(unsigned{kLanes})][kVector];
#pragma unroll
      for (int l = 0; l < kLanes; l++) {
        const int i = lane_of(args, me, c + l);
        Value values[kVector];
#pragma unroll
        for (int k = 0; k < kVector; k++) values[k] = Reduction::identity();
        if (has_neutral<Reduction> || i < length) take(args, me, values, units[l], start + i);
        if (i == last_lane) take_last(args, me, values);
        int level = 0;
#pragma unroll
        for (; l >> level & 1; level++) {
#pragma unroll
          for (int k = 0; k < kVector; k++) values[k] = Reduction::merge(unfolded[level][k], values[k]);
        }
#pragma unroll
        for (int k = 0; k < kVector; k++) folded[k] = unfolded[level][k] = values[k];
        if (l + 1 == args.lanes_per_thread) break;
      }
      stack.push(folded, c / kLanes, c + kLanes >= args.lanes_per_thread);
    }
  }

  static __device__ __forceinline__ void take_last(const ColumnsArguments& args,
                                                   const ColumnsThread<Reduction, Element>& me,
                                                   Value (&values)[kVector]) {
    const Vector last = load_last(me.last_row, me.last_slots);
#pragma unroll
    for (int k = 0; k < kVector; k++) {
      if (k < me.last_slots) take_slot(args, me, values, last, args.length - 1, k);
    }
  }

  // One lane, the order being free, with kRounds rows in flight.
  static __device__ __forceinline__ void packed(const ColumnsArguments& args,
                                                const ColumnsThread<Reduction, Element>& me, int64_t start, int length,
                                                Value (&folded)[kVector]) {
    const int64_t step = args.row_stride * args.order_lanes;
    const bool has_last = me.is_last_short && start + length == args.length;
    length -= has_last;
    const int lane = lane_of(args, me, 0);
    const int takes = lane < length ? static_cast<int>(ceil_div(length - lane, args.order_lanes)) : 0;
    const Element* first = aligned_down(me.elements + (start + lane) * args.row_stride);
    const Element* rows = first;
    PackedColumns<Reduction, Element> packed;
    packed.begin();
    for (int t = 0; t < takes; t += kRounds) {
      const auto take_batch = [&]<bool kAll>() {
        uint4 units[kRounds];
#pragma unroll
        for (int r = 0; r < kRounds; r++) {
          if (!kAll) units[r] = neutral_vector<Reduction, Element>();
          if (kAll || t + r < takes) units[r] = load_streaming(reinterpret_cast<const uint4*>(rows + r * step));
        }
#pragma unroll
        for (int r = 0; r < kRounds; r++) packed.take(units[r], t + r);
      };
      // Whole batches without a condition.
      if (t + kRounds <= takes) {
        take_batch.template operator()<true>();
      } else {
        take_batch.template operator()<false>();
      }
      rows += kRounds * step;
    }
#pragma unroll
    for (int k = 0; k < kVector; k++) {
      folded[k] = Reduction::identity();
      if (takes == 0) continue;
      folded[k] = packed.value(k, [&](int slot) { return find_nan(first + slot, step, takes); });
      if constexpr (finds_position<Reduction>) {
        folded[k].index = (start + lane + folded[k].index * args.order_lanes) * args.row_place + me.position[k];
      }
    }
    if (has_last && lane == (length & (args.order_lanes - 1))) take_last(args, me, folded);
  }

  static __device__ __noinline__ int find_nan(const Element* element, int64_t step, int count) {
#pragma unroll 1
    for (int t = 0; t < count; t++, element += step) {
      const auto x = widen<Input>(*element);
      if (x != x) return t;
    }
    return count;
  }

  // kLanes lanes with kRounds rows each in flight.
  static __device__ __forceinline__ void rounds(const ColumnsArguments& args,
                                                const ColumnsThread<Reduction, Element>& me, int64_t start, int length,
                                                HalvesStack<Reduction, Value, kVector> stack,
                                                Value (&folded)[kVector]) {
    const int64_t step = args.row_stride * args.order_lanes;
    const bool has_last = me.is_last_short && start + length == args.length;
    length -= has_last;  // it comes by itself, after all others of its lane
    Vector neutral{};
    if constexpr (has_neutral<Reduction>) neutral = Vector::filled_with(Reduction::neutral());
    for (int c = 0; c < args.lanes_per_thread; c += kLanes) {
      Value values[kLanes][kVector];
      int first[kLanes];
      const Element* rows[kLanes];
#pragma unroll
      for (int l = 0; l < kLanes; l++) {
        first[l] = lane_of(args, me, c + l);
        rows[l] = aligned_down(me.elements + (start + first[l]) * args.row_stride);
#pragma unroll
        for (int k = 0; k < kVector; k++) values[l][k] = Reduction::identity();
      }
      for (int round = 0; round < length; round += kRounds * args.order_lanes) {
        const auto take_round = [&]<bool kAll>() {
          Vector units[kLanes][kRounds];
#pragma unroll
          for (int l = 0; l < kLanes; l++) {
#pragma unroll
            for (int r = 0; r < kRounds; r++) {
              units[l][r] = neutral;
              if (kAll || round + r * args.order_lanes + first[l] < length) units[l][r].load(rows[l] + r * step);
            }
            rows[l] += kRounds * step;
          }
#pragma unroll
          for (int l = 0; l < kLanes; l++) {
#pragma unroll
            for (int r = 0; r < kRounds; r++) {
              const int i = round + r * args.order_lanes + first[l];
              if (kAll || has_neutral<Reduction> || i < length) take(args, me, values[l], units[l][r], start + i);
            }
          }
        };
        // Loads under a condition that their use shares are waited for one by one.
        if (!has_neutral<Reduction> && round + kRounds * args.order_lanes <= length && first[kLanes - 1] < kNoLane) {
          take_round.template operator()<true>();
        } else {
          take_round.template operator()<false>();
        }
      }
      if (has_last) {
#pragma unroll
        for (int l = 0; l < kLanes; l++) {
          if (first[l] == (length & (args.order_lanes - 1))) take_last(args, me, values[l]);
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
};

// Partial results of one output, `stride` parts from one to the next: number e counts where e mod `leaves` < `there`.
// This thread folds first, first + step, ...
template <class Reduction, class Part>
__device__ __forceinline__ Part fold_entries(const Part* partials, int num_entries, int leaves, int there, int first,
                                             int step, int stride, HalvesStack<Reduction, Part, 1> stack) {
  // More of them in flight, or all without a condition, would cost the whole kernel registers
  // (benchmarks/results/variants.md).
  constexpr int kBatch = 8;
  const int count = num_entries / step, bits = 31 - __clz(count);
  Part folded[1];
  for (int c = 0; c < count; c += kBatch) {
    Part batch[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; b++) {
      const int entry = reverse_bits(c + b, bits) * step + first;
      const bool counts = c + b < count && (entry & (leaves - 1)) < there;
      batch[b] = counts ? load_shared_by_blocks(partials + static_cast<int64_t>(entry) * stride)
                        : identity_of<Reduction, Part>();
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

template <class Reduction, class Element, int kLanes, int kRounds>
__global__ void __launch_bounds__(max_columns_threads(kRounds), kRounds == 1 ? 4 : 2)
    columns_kernel(const __grid_constant__ ColumnsArguments args) {
  using Walk = ColumnsWalk<Reduction, Element, kLanes, kRounds>;
  using Value = typename Reduction::Value;
  using Part = PartOf<Reduction>;
  using Focus = FocusOf<Reduction>;
  constexpr int kVector = Walk::kVector;
  extern __shared__ uint4 shared_memory[];
  if (args.cluster) cluster_arrive();  // the first block's shared memory may be written once all have come
  wait_for_previous_kernel();
  if (args.is_small) let_next_kernel_start();

  const int thread = threadIdx.x, threads = blockDim.x;
  const int x = thread % args.vectors, y = thread / args.vectors;
  const int row_values = args.tile_outputs, outputs = row_values / args.rows_of_unit;
  auto* bytes = reinterpret_cast<unsigned char*>(shared_memory);
  auto* block_values = reinterpret_cast<Value*>(bytes);
  auto* stack = reinterpret_cast<Value*>(bytes + args.shared.stack) + thread;
  auto* entries_stack = reinterpret_cast<Part*>(bytes + args.shared.stack) + thread;
  auto* parts = reinterpret_cast<Part*>(bytes + args.shared.parts);
  auto* leaf_stack = reinterpret_cast<Part*>(bytes + args.shared.leaf_stack);
  auto* focuses = reinterpret_cast<Focus*>(bytes + args.shared.focus);
  auto* gathered = reinterpret_cast<Part*>(bytes + args.shared.gathered);

  const int padded_leaves = args.num_leaves == 1 ? 1 : 1 << (32 - __clz(args.num_leaves - 1));
  const int leaves_of_block = padded_leaves / args.splits, leaf_bits = 31 - __clz(leaves_of_block);
  const int sharers = min(args.splits, args.num_leaves) * args.lane_splits;
  // Lanes that blocks share fold before the rows of a unit do, so these go out as they are.
  const bool rows_fold_late = args.lane_splits > 1;
  const int rows_late = rows_fold_late ? args.rows_of_unit : 1;

  for (int64_t item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    const int64_t tile = args.cluster ? item / sharers : item % args.num_tiles;
    const int share = static_cast<int>(args.cluster ? item % sharers : item / args.num_tiles);
    const int split = share / args.lane_splits, z = share % args.lane_splits;
    const int64_t matrix = args.tiles_per_row == args.num_tiles ? 0 : tile / args.tiles_per_row;
    const int64_t first_output = (tile - matrix * args.tiles_per_row) * row_values;
    const int num_outputs = args.rows_of_unit > 1
                                ? outputs
                                : static_cast<int>(min(static_cast<int64_t>(row_values), args.width - first_output));
    const auto at = args.kept.locate(matrix);
    const Element* elements = static_cast<const Element*>(args.input) + at.offset + first_output;
    const int64_t place = at.place + first_output * args.place;

    ColumnsThread<Reduction, Element> me{.elements = elements + x * kVector, .y = y, .z = z};
    const auto address = reinterpret_cast<uintptr_t>(elements + (y * args.lane_splits + z) * args.row_stride);
    me.first_output = x * kVector - static_cast<int>(address % (kVector * sizeof(Element)) / sizeof(Element));
#pragma unroll
    for (int k = 0; k < kVector; k++) me.position[k] = args.rows_of_unit > 1 ? (me.first_output + k) / outputs : 0;
    me.last_row = Walk::aligned_down(me.elements + (args.length - 1) * args.row_stride);
    const int64_t to_end = static_cast<const Element*>(args.end) - me.last_row;
    const int64_t to_short = args.reduced_length * outputs - (args.length - 1) * row_values - me.first_output;
    const int64_t there = min(to_end, args.rows_of_unit > 1 ? to_short : to_end);
    me.last_slots = static_cast<int>(max(int64_t{0}, min(there, int64_t{kVector})));
    me.is_last_short = me.last_slots < kVector;
    const bool active = y < args.lanes && me.first_output < num_outputs * args.rows_of_unit;

    for (int j = 0; j < leaves_of_block; j++) {
      const int leaf = reverse_bits(j, leaf_bits) * args.splits + split;
      const int64_t start = leaf * args.leaf_elements;
      const int length = leaf >= args.num_leaves       ? 0
                         : leaf == args.num_leaves - 1 ? static_cast<int>(args.length - start)
                                                       : static_cast<int>(args.leaf_elements);
      if constexpr (Focused<Reduction>) {
        for (int i = thread; i < num_outputs && length > 0; i += threads) {
          focuses[i] = focus_at<Reduction>(elements + start * args.row_stride + i, args.finish);
        }
      }
      for (bool again = true; again;) {
        if constexpr (Focused<Reduction>) {
          __syncthreads();
#pragma unroll
          for (int k = 0; k < kVector; k++) {
            me.focus[k] = focuses[max(0, min(me.first_output + k, num_outputs * args.rows_of_unit - 1)) % outputs];
          }
        }
        Value folded[kVector];
        Walk::leaf(args, me, start, active ? length : 0, {stack, threads}, folded);
        again = false;
        if constexpr (!Focused<Reduction>) {
          if (args.owns_outputs) {
            // Nothing is shared: a thread has its outputs to itself.
            if (active) {
              store_neighbours<Reduction>(args.outputs, place + x * kVector, folded, args.finish);
            }
            break;
          }
        }
        __syncthreads();  // the last leaf's values were read
        if (active) {
#pragma unroll
          for (int k = 0; k < kVector; k++) {
            const int i = me.first_output + k;
            if (i >= 0 && i < row_values) block_values[y * row_values + i] = folded[k];
          }
        }
        fold_shared<Reduction>(block_values, args.lanes, row_values);
        if (!rows_fold_late && args.rows_of_unit > 1) {
          fold_shared<Reduction>(block_values, args.rows_of_unit, outputs);
        }
        if constexpr (Focused<Reduction>) {
          const int64_t count = leaf == args.num_leaves - 1 ? args.reduced_length - start * args.rows_of_unit
                                                            : int64_t{length} * args.rows_of_unit;
          bool mine = false;
          for (int i = thread; i < num_outputs && length > 0; i += threads) {
            mine |= Reduction::refocus(focuses[i], block_values[i], count, args.finish);
          }
          again = __syncthreads_or(mine);
          if (!again) {
            for (int i = thread; i < num_outputs; i += threads) {
              parts[i] = length > 0 ? make_part<Reduction>(block_values[i], focuses[i], count)
                                    : identity_of<Reduction, Part>();
            }
          }
        } else {
          for (int i = thread; i < outputs * rows_late; i += threads) {
            parts[i] = length > 0 ? block_values[i] : Reduction::identity();
          }
        }
      }
      if (leaves_of_block > 1) {
        for (int i = thread; i < outputs; i += threads) {
          Part folded[1] = {parts[i]};
          HalvesStack<Reduction, Part, 1>{leaf_stack + i, outputs}.push(folded, j, j == leaves_of_block - 1);
          parts[i] = folded[0];
        }
      }
    }
    if (args.owns_outputs) continue;
    if (!args.is_small) let_next_kernel_start();

    if (sharers > 1) {
      // Entry (z, row of the unit, split), top to bottom.
      const int num_entries = args.lane_splits * rows_late * args.splits;
      const auto entry_of = [&](int i) {
        return ((z * rows_late + i / outputs) * args.splits + split) * outputs + i % outputs;
      };
      if (args.cluster) {
        for (int i = thread; i < num_entries * outputs && share == 0; i += threads) {
          if ((i / outputs & (args.splits - 1)) >= args.num_leaves) gathered[i] = identity_of<Reduction, Part>();
        }
        cluster_wait();
        Part* all = in_first_block(gathered);
        for (int i = thread; i < outputs * rows_late; i += threads) all[entry_of(i)] = parts[i];
        cluster_arrive();
        cluster_wait();
        if (share > 0) return;
        fold_shared<Reduction>(gathered, num_entries, outputs);
        for (int i = thread; i < outputs; i += threads) parts[i] = gathered[i];
      } else {
        Part* partials = static_cast<Part*>(args.partials) + tile * num_entries * outputs;
        for (int i = thread; i < outputs * rows_late; i += threads) partials[entry_of(i)] = parts[i];
        __shared__ bool is_last;
        __syncthreads();
        if (thread == 0) is_last = draw_ticket(args.counters + tile, sharers - 1) == sharers - 1u;
        __syncthreads();
        if (!is_last) continue;
        int step = 1;
        while (2 * step * outputs <= threads && 2 * step <= num_entries) step *= 2;
        auto* folded = reinterpret_cast<Part*>(bytes + args.shared.gathered);
        for (int i = thread; i < step * outputs; i += threads) {
          folded[i] = fold_entries<Reduction>(partials + i % outputs, num_entries, args.splits, args.num_leaves,
                                              i / outputs, step, outputs, {entries_stack, threads});
        }
        fold_shared<Reduction>(folded, step, outputs);
        for (int i = thread; i < outputs; i += threads) parts[i] = folded[i];
      }
    }
    for (int i = thread; i < num_outputs; i += threads) {
      store<Reduction>(args.outputs, place + i * args.place, parts[i], args.finish);
    }
    __syncthreads();
  }
}

// Up to kRows rows: a thread takes several vectors, all their rows in flight, and shares nothing.
template <class Reduction, class Element, int kRows>
__global__ void __launch_bounds__(256) thin_kernel(const __grid_constant__ ColumnsArguments args) {
  using Input = typename Reduction::Input;
  constexpr int kVector = kTileVector<Reduction, Element>, kUnits = kThinLoads / kRows;
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int64_t vectors_per_row = args.width / kVector;
  for (int64_t item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    const int64_t first = item * (kUnits * blockDim.x) + threadIdx.x;
    Unit<Element, kVector> units[kUnits][kRows];
    int64_t places[kUnits];
#pragma unroll
    for (int u = 0; u < kUnits; u++) {
      const int64_t vector = min(first + u * blockDim.x, args.num_tiles - 1);
      const int64_t matrix = args.tiles_per_row == args.num_tiles ? 0 : vector / vectors_per_row;
      const int64_t output = (vector - matrix * vectors_per_row) * kVector;
      const auto at = args.kept.locate(matrix);
      places[u] = at.place + output;
      const Element* elements = static_cast<const Element*>(args.input) + at.offset + output;
#pragma unroll
      for (int i = 0; i < kRows; i++) {
        if constexpr (has_neutral<Reduction>) units[u][i] = Unit<Element, kVector>::filled_with(Reduction::neutral());
        if (i < args.length) units[u][i].load(elements + i * args.row_stride);
      }
    }
#pragma unroll
    for (int u = 0; u < kUnits; u++) {
      if (first + u * blockDim.x < args.num_tiles) {
        PartOf<Reduction> results[kVector];
#pragma unroll
        for (int k = 0; k < kVector; k++) {
          FocusOf<Reduction> focus{};
          const Input first_element = units[u][0].template at<Input>(k);
          if constexpr (Focused<Reduction>) focus = Reduction::focus(first_element, args.finish);
          for (bool again = true; again;) {
            typename Reduction::Value lanes[kRows];
#pragma unroll
            for (int i = 0; i < kRows; i++) {
              lanes[i] = Reduction::identity();
              if (has_neutral<Reduction> || i < args.length) {
                lanes[i] =
                    take_element<Reduction>(lanes[i], units[u][i].template at<Input>(k), i * args.row_place, focus);
              }
            }
            const auto value = fold_registers<Reduction>(lanes);
            again = false;
            if constexpr (Focused<Reduction>) {
              again = args.length > 0 && Reduction::refocus(focus, value, args.length, args.finish);
            }
            results[k] = make_part<Reduction>(value, focus, args.length);
          }
        }
        store_neighbours<Reduction>(args.outputs, places[u], results, args.finish);
      }
    }
  }
}

}  // namespace gpureduce::cuda
