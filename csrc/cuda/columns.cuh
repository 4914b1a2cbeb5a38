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
#include "cuda/unit.cuh"

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
  int64_t num_items;
  int64_t ahead_blocks;                        // that prefetch()
  Division num_tiles, tiles_per_row, sharers;  // blocks of a tile
  int order_lanes, num_leaves;
  Division vectors;
  int lanes, lanes_per_thread, lane_splits, splits;
  int tile_outputs;
  int rows_of_unit;
  int fold_groups, entries_of_tile;
  bool cluster;
  bool is_small;  // fewer blocks than multiprocessors
  ColumnsShared shared;
  AxisMap<kMaxVectorAxes> kept;  // the outer axes: one matrix each
  const void* end;               // of the input
};

// Values in shared memory with a gap after every kVector of them, so that threads that write kVector neighbours each
// meet in no bank (spread_size() of them in all, core/plan.h).
template <class Value, int kVector>
struct SpreadValues {
  Value* values;
  __device__ __forceinline__ Value& operator[](int i) const { return values[spread_size(i, kVector)]; }
};

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
  bool is_any_short;        // of some thread of the block, perhaps
  int position[kVector];    // of the slot's element among joined rows
  FocusOf<Reduction> focus[kVector];
  uint32_t stream;  // shared memory for vectors on their way
};

// The walk of one leaf by one thread.
template <class Reduction, class Element, int kRounds, bool kNineWarps>
struct ColumnsWalk {
  static constexpr int kVector = kTileVector<Reduction, Element>;
  static constexpr int kVectorBytes = kVector * sizeof(Element);
  using Value = typename Reduction::Value;
  using Input = typename Reduction::Input;
  using Vector = Unit<Element, kVector>;
  static constexpr int kStages =
      columns_stages(has_wide_lanes<Reduction>(), kVector, sizeof(Element), kRounds, kNineWarps);
  static constexpr int kLanes = Reduction::kOrdered ? lanes_at_once(kRounds, kStages) : 1;

  static __device__ __forceinline__ const Element* aligned_down(const Element* elements) {
    const auto address = reinterpret_cast<uintptr_t>(elements);
    return reinterpret_cast<const Element*>(address - address % sizeof(Vector));
  }

  // The last row, of which only some slots may be read: the others are no elements, or nobody's.
  static __device__ __forceinline__ Vector load_last(const ColumnsThread<Reduction, Element>& me, Vector others) {
    return {load_some(me.last_row, 0, me.last_slots, others.word)};
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
    values[k] = take_next<Reduction>(values[k], x, index, me.focus[k]);
  }

  // Lane number c of the thread's, in bit-reversed order: lanes (q * lanes + y) * lane_splits + z for every q.
  static constexpr int kNoLane = 1 << 30;  // no leaf is as long
  static __device__ __forceinline__ int lane_of(const ColumnsArguments& args,
                                                const ColumnsThread<Reduction, Element>& me, int c) {
    return lane_of(args, me.y, me.z, c);
  }
  static __device__ __forceinline__ int lane_of(const ColumnsArguments& args, int y, int z, int c) {
    const int q = reverse_bits(c, 31 - __clz(args.lanes_per_thread));
    return c < args.lanes_per_thread ? (q * args.lanes + y) * args.lane_splits + z : kNoLane;
  }

  // Asks for the rows of the leaf `start` .. `start + length` that the block's threads take first, from `elements` on.
  // Neighbouring lanes are asked for at once where the tile is all there is of their rows; blocks that share the leaf's
  // lanes share these. Out of line, where it takes no registers of the walk.
  static __device__ __noinline__ void ask_ahead(const ColumnsArguments& args, const Element* elements, int z,
                                                int64_t start, int length) {
    const bool joined = args.row_stride == args.tile_outputs;
    const int pieces = joined ? 1 : args.lanes;  // of a lane number and round
    const int lanes = joined ? args.lanes * args.lane_splits : 1;
#pragma unroll 1
    for (int i = threadIdx.x; i < kLanes * kRounds * pieces; i += blockDim.x) {
      if (joined && (i & (args.lane_splits - 1)) != z) continue;
      const int y = i & (pieces - 1), c = i >> log2_on_device(pieces);
      const int row = lane_of(args, y, joined ? 0 : z, c / kRounds) + c % kRounds * args.order_lanes;
      if (row >= length) continue;
      const auto* first = reinterpret_cast<const char*>(elements + (start + row) * args.row_stride);
      const int64_t bytes = int64_t{min(lanes, length - row)} * args.vectors.divisor * kVectorBytes;
      prefetch(first, min(bytes, static_cast<int64_t>(static_cast<const char*>(args.end) - first)));
    }
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
    constexpr int kBits = std::bit_width(unsigned{kLanes}) - 1;
    const bool is_last = start + length == args.length, has_last = me.is_last_short && is_last;
    const int surely = length - (is_last && me.is_any_short);  // whole for all threads, which take the same way
    length -= has_last;
    const int last_lane = has_last ? length : -1;
    Vector neutral{};
    if constexpr (has_neutral<Reduction>) neutral = Vector::filled_with(Reduction::neutral());
    const int lanes = min(args.lanes_per_thread, kLanes);
    const int64_t lane_stride = args.order_lanes * args.row_stride;
    for (int c = 0; c < args.lanes_per_thread; c += kLanes) {
      // Lane c + l, bit-reversed: lane c and as many kLanes-ths of the leaf as l reversed.
      const int first = lane_of(args, me, c);
      const Element* rows = me.elements + (start + first) * args.row_stride;
      const auto take_batch = [&]<bool kAll>() {
        Vector units[kLanes];
#pragma unroll
        for (int l = 0; l < kLanes; l++) {
          const int reversed = reverse_bits(l, kBits), i = first + (reversed * args.order_lanes >> kBits);
          if (!kAll) units[l] = neutral;
          if (kAll || (l < lanes && i < length)) units[l].load(aligned_down(rows + (reversed * lane_stride >> kBits)));
          if (!kAll && has_neutral<Reduction> && i == last_lane && l < lanes) units[l] = load_last(me, neutral);
        }
        // As they come, so that few are unfolded at a time: neighbours first is halves.
        Value unfolded[kBits + 1][kVector];
#pragma unroll
        for (int l = 0; l < kLanes; l++) {
          const int reversed = reverse_bits(l, kBits), i = first + (reversed * args.order_lanes >> kBits);
#pragma unroll
          for (int k = 0; k < kVector; k++) folded[k] = Reduction::identity();
          if (kAll || has_neutral<Reduction> || (l < lanes && i < length)) take(args, me, folded, units[l], start + i);
          if (!kAll && !has_neutral<Reduction> && i == last_lane && l < lanes) take_last(args, me, folded);
          fold_in_turn<Reduction>(unfolded, folded, l);
        }
      };
      // Without a condition where all lanes are there.
      if (lanes == kLanes && first + (((kLanes - 1) * args.order_lanes) >> kBits) < surely) {
        take_batch.template operator()<true>();
      } else {
        take_batch.template operator()<false>();
      }
      stack.push(folded, c / kLanes, c + kLanes >= args.lanes_per_thread);
    }
  }

  static __device__ __forceinline__ void take_last(const ColumnsArguments& args,
                                                   const ColumnsThread<Reduction, Element>& me,
                                                   Value (&values)[kVector]) {
    const Vector last = load_last(me, {});
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
      folded[k] = packed.value(k, [&](int slot) { return find_nan<Reduction>(first + slot, step, takes); });
      if constexpr (finds_position<Reduction>) {
        folded[k].index = (start + lane + folded[k].index * args.order_lanes) * args.row_place + me.position[k];
      }
    }
    if (has_last && lane == (length & (args.order_lanes - 1))) take_last(args, me, folded);
  }

  // The whole batches of all lanes, one after the other, on their way through shared memory: a thread asks for its own
  // vectors and waits for them alone.
  struct Stream {
    static constexpr int kBytes = sizeof(Vector), kBatch = kLanes * kRounds;
    using Copied = std::conditional_t<kBytes == 8, uint2, uint32_t>;
    const ColumnsArguments& args;
    const ColumnsThread<Reduction, Element>& me;
    int64_t start, step;
    int batches, left;  // of all lanes of a turn, and of those that are asked for next
    int lane = 0;       // number of the first of these
    const Element* rows[kLanes];
    uint32_t memory, stage = 0;

    __device__ __forceinline__ Stream(const ColumnsArguments& args, const ColumnsThread<Reduction, Element>& me,
                                      int64_t start, int batches)
        : args(args), me(me), start(start), step(args.row_stride * args.order_lanes), batches(batches), left(0) {
      if constexpr (kStages > 0) {
        if (!has(0)) return;
        memory = me.stream;
#pragma unroll
        for (int i = 0; i < kStages; i++) ask();
      }
    }
    // Whether lane number c and those that are taken with it are all there, and have whole batches.
    __device__ __forceinline__ bool has(int c) const { return batches > 0 && c + kLanes <= args.lanes_per_thread; }

    __device__ __forceinline__ void ask() {
      if (left == 0 && has(lane)) {
#pragma unroll
        for (int l = 0; l < kLanes; l++) {
          rows[l] = aligned_down(me.elements + (start + lane_of(args, me, lane + l)) * args.row_stride);
        }
        lane += kLanes;
        left = batches;
      }
      if (left > 0) {
        const uint32_t place = memory + stage;
#pragma unroll
        for (int l = 0; l < kLanes; l++) {
#pragma unroll
          for (int r = 0; r < kRounds; r++) {
            const auto* vector = reinterpret_cast<const Copied*>(rows[l] + r * step);
            copy_async(place + (l * kRounds + r) * kBytes * blockDim.x, vector);
          }
          rows[l] += kRounds * step;
        }
        left--;
      }
      end_copies();
      const uint32_t bytes = kBatch * kBytes * blockDim.x;
      stage = stage == (kStages - 1) * bytes ? 0 : stage + bytes;
    }
    // Calls f(lane, round, vector) for those of the batch that was asked for first.
    template <class F>
    __device__ __forceinline__ void take(F f) {
      wait_for_copies<kStages - 1>();
#pragma unroll
      for (int l = 0; l < kLanes; l++) {
#pragma unroll
        for (int r = 0; r < kRounds; r++) {
          const uint32_t place = memory + stage + (l * kRounds + r) * kBytes * blockDim.x;
          f(l, r, Vector{load_shared<typename Vector::Word>(place)});
        }
      }
      ask();
    }
  };

  // kLanes lanes with kRounds rows each in flight.
  static __device__ __forceinline__ void rounds(const ColumnsArguments& args,
                                                const ColumnsThread<Reduction, Element>& me, int64_t start, int length,
                                                HalvesStack<Reduction, Value, kVector> stack,
                                                Value (&folded)[kVector]) {
    const int64_t step = args.row_stride * args.order_lanes;
    const int rows_of_batch = kRounds * args.order_lanes;
    const bool is_last = start + length == args.length, has_last = me.is_last_short && is_last;
    const int surely = length - (is_last && me.is_any_short);  // whole for all threads, which take the same way
    length -= has_last;  // the last row comes by itself, after all others of its lane
    Vector neutral{};
    if constexpr (has_neutral<Reduction>) neutral = Vector::filled_with(Reduction::neutral());
    Stream stream(args, me, start, surely / rows_of_batch);
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
      const auto load = [&]<bool kAll>(Vector(&batch)[kLanes][kRounds], int round) {
#pragma unroll
        for (int l = 0; l < kLanes; l++) {
#pragma unroll
          for (int r = 0; r < kRounds; r++) {
            if (!kAll) batch[l][r] = neutral;
            if (kAll || round + r * args.order_lanes + first[l] < length) batch[l][r].load(rows[l] + r * step);
          }
          rows[l] += kRounds * step;
        }
        // The compiler moves loads to where they are used, and no further than here.
        if constexpr (!Reduction::kOrdered) __syncwarp(__activemask());
      };
      const auto take_batch = [&]<bool kAll>(const Vector(&batch)[kLanes][kRounds], int round) {
#pragma unroll
        for (int l = 0; l < kLanes; l++) {
#pragma unroll
          for (int r = 0; r < kRounds; r++) {
            const int i = round + r * args.order_lanes + first[l];
            if (kAll || has_neutral<Reduction> || i < length) take(args, me, values[l], batch[l][r], start + i);
          }
        }
      };
      int round = 0;
      if constexpr (kStages > 0) {
        for (; round + rows_of_batch <= surely && stream.has(c); round += rows_of_batch) {
          stream.take([&](int l, int r, const Vector& vector) {
            take(args, me, values[l], vector, start + round + r * args.order_lanes + first[l]);
          });
        }
#pragma unroll
        for (int l = 0; l < kLanes; l++) rows[l] += round * args.row_stride;
      }
      for (; round < length; round += rows_of_batch) {
        Vector batch[kLanes][kRounds];
        // Whole rounds without a condition: loads that share one with their use are waited for one by one. With few
        // registers it is better to have one way for all.
        constexpr bool kTellsWhole = kStages == 0 && (!has_neutral<Reduction> || !kNineWarps);
        if (kTellsWhole && round + rows_of_batch <= surely && first[kLanes - 1] < kNoLane) {
          load.template operator()<true>(batch, round);
          take_batch.template operator()<true>(batch, round);
        } else {
          load.template operator()<false>(batch, round);
          take_batch.template operator()<false>(batch, round);
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

// Partial results of one output, `stride` parts from one to the next, of which those count that is_there(number) is
// true of. This thread folds first, first + step, ...
template <class Reduction, int kBatch = 8, class Part, class IsThere>
__device__ __forceinline__ Part fold_entries(const Part* partials, int num_entries, int first, int step, int stride,
                                             HalvesStack<Reduction, Part, 1> stack, IsThere is_there) {
  // More of them in flight, or all without a condition, would cost the whole kernel registers
  // (benchmarks/results/variants.md).
  const int count = num_entries / step, bits = 31 - __clz(count);
  Part folded[1];
  for (int c = 0; c < count; c += kBatch) {
    Part batch[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; b++) {
      const int entry = reverse_bits(c + b, bits) * step + first;
      const bool counts = c + b < count && is_there(entry);
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

// What the blocks of a tile left in `partials`, folded by those that come last: entries come together group by group,
// and then the groups. Entry e is of group e mod `fold_groups`. True for the block that has the results in `parts`.
template <class Reduction, bool kRolled, class Part>
__device__ __forceinline__ bool fold_over_blocks(const ColumnsArguments& args, int64_t tile, int split, Part* partials,
                                                 int num_entries, int outputs, Part* parts, Part* folded, Part* stack) {
  const int thread = threadIdx.x, threads = blockDim.x;
  const int groups = args.fold_groups, group = split & (groups - 1), present = min(args.splits, args.num_leaves);
  Part* of_groups = partials + num_entries * outputs;
  for (bool of_tile = groups == 1;; of_tile = true) {
    const bool over_groups = of_tile && groups > 1;
    unsigned* counter = args.counters + (of_tile ? tile : args.num_tiles.divisor + tile * groups + group);
    const int comers = over_groups ? min(groups, present) : ceil_div(present - group, groups) * args.lane_splits;
    if (!draws_last_ticket(counter, comers)) return false;
    const Part* from = over_groups ? of_groups : partials + group * outputs;
    const int entries = over_groups ? groups : num_entries / groups;
    const int scale = over_groups ? 1 : groups, offset = over_groups ? 0 : group;
    int step = 1;
    while (2 * step * outputs <= threads && 2 * step <= entries) step *= 2;
    by_threads<kRolled>(step * outputs, [&](int i) {
      folded[i] = fold_entries<Reduction>(from + i % outputs, entries, i / outputs, step, scale * outputs,
                                          HalvesStack<Reduction, Part, 1>{stack + thread, threads}, [&](int entry) {
                                            return ((entry * scale + offset) & (args.splits - 1)) < args.num_leaves;
                                          });
    });
    fold_shared<Reduction>(folded, step, outputs);
    Part* to = of_tile ? parts : of_groups + group * outputs;
    by_threads<kRolled>(outputs, [&](int i) { to[i] = folded[i]; });
    if (of_tile) return true;
  }
}

template <class Reduction, class Element, int kRounds, bool kNineWarps = false>
__global__ void __launch_bounds__(columns_threads(kNineWarps), kRounds == 1 && !has_wide_lanes<Reduction>() ? 4 : 2)
    columns_kernel(const __grid_constant__ ColumnsArguments args) {
  using Walk = ColumnsWalk<Reduction, Element, kRounds, kNineWarps>;
  using Value = typename Reduction::Value;
  using Part = PartOf<Reduction>;
  using Focus = FocusOf<Reduction>;
  constexpr int kVector = Walk::kVector;
  constexpr bool kRolled = !has_all_kernels<Reduction, Element>;
  extern __shared__ uint4 shared_memory[];
  if (args.cluster) cluster_arrive();  // the first block's shared memory may be written once all have come

  const int thread = threadIdx.x, threads = blockDim.x;
  const int y = static_cast<int>(args.vectors.quotient(thread)),
            x = thread - y * static_cast<int>(args.vectors.divisor);
  const int row_values = args.tile_outputs, outputs = row_values / args.rows_of_unit;
  auto* bytes = reinterpret_cast<unsigned char*>(shared_memory);
  const SpreadValues<Value, kVector> block_values{reinterpret_cast<Value*>(bytes)};
  auto* stack = reinterpret_cast<Value*>(bytes + args.shared.stack) + thread;
  auto* parts = reinterpret_cast<Part*>(bytes + args.shared.parts);
  auto* leaf_stack = reinterpret_cast<Part*>(bytes + args.shared.leaf_stack);
  auto* focuses = reinterpret_cast<Focus*>(bytes + args.shared.focus);
  auto* gathered = reinterpret_cast<Part*>(bytes + args.shared.gathered);

  const int padded_leaves = args.num_leaves == 1 ? 1 : 1 << (32 - __clz(args.num_leaves - 1));
  const int leaves_of_block = padded_leaves / args.splits, leaf_bits = 31 - __clz(leaves_of_block);
  const auto sharers = static_cast<int>(args.sharers.divisor);
  // Lanes that blocks share fold before the rows of a unit do, so these go out as they are.
  const bool rows_fold_late = args.lane_splits > 1;
  const int rows_late = rows_fold_late ? args.rows_of_unit : 1;

  for (int64_t item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    // The blocks of a tile are neighbours in a cluster, and as far apart as they can be otherwise.
    const Division& across = args.cluster ? args.sharers : args.num_tiles;
    const int64_t quotient = across.quotient(item), rest = item - quotient * across.divisor;
    const int64_t tile = args.cluster ? quotient : rest;
    const int share = static_cast<int>(args.cluster ? rest : quotient);
    const int split = share >> log2_on_device(args.lane_splits), z = share & (args.lane_splits - 1);
    const int64_t matrix = args.tiles_per_row.quotient(tile);
    const int64_t first_output = (tile - matrix * args.tiles_per_row.divisor) * row_values;
    const int num_outputs = args.rows_of_unit > 1
                                ? outputs
                                : static_cast<int>(min(static_cast<int64_t>(row_values), args.width - first_output));
    const auto at = locate_apart(args.kept, matrix);
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
    if constexpr (Walk::kStages > 0) {
      me.stream = shared_address(bytes + args.shared.stream) + thread * static_cast<int>(sizeof(typename Walk::Vector));
    }
    const bool active = y < args.lanes && me.first_output < num_outputs * args.rows_of_unit;
    const Element* last_output = elements + (args.length - 1) * args.row_stride + num_outputs * args.rows_of_unit - 1;
    me.is_any_short =
        Walk::aligned_down(last_output) + kVector > args.end || args.reduced_length < args.length * args.rows_of_unit;

    const auto leaf_of = [&](int j) { return reverse_bits(j, leaf_bits) * args.splits + split; };
    const auto length_of = [&](int leaf) {
      if (leaf >= args.num_leaves) return 0;
      return static_cast<int>(leaf == args.num_leaves - 1 ? args.length - leaf * args.leaf_elements
                                                          : args.leaf_elements);
    };
    const auto ask_ahead = [&](int leaf) {
      if (blockIdx.x >= args.ahead_blocks || leaf >= args.num_leaves) return;
      Walk::ask_ahead(args, elements, z, leaf * args.leaf_elements, length_of(leaf));
    };
    ask_ahead(leaf_of(0));
    wait_for_previous_kernel();
    if (args.is_small) let_next_kernel_start();

    for (int j = 0; j < leaves_of_block; j++) {
      const int leaf = leaf_of(j), length = length_of(leaf);
      const int64_t start = leaf * args.leaf_elements;
      const int64_t count = leaf == args.num_leaves - 1 ? args.reduced_length - start * args.rows_of_unit
                                                        : int64_t{length} * args.rows_of_unit;
      if constexpr (Focused<Reduction>) {
        const int64_t step = args.rows_of_unit > 1 ? outputs : args.row_stride;
        by_threads<kRolled>(length > 0 ? num_outputs : 0, [&](int i) {
          const Element* first = elements + start * args.row_stride + i;
          focuses[i] = first_focus<Reduction>(args.finish, [&](int sample) {
            return widen<typename Reduction::Input>(first[min(int64_t{sample}, count - 1) * step]);
          });
        });
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
        if (j + 1 < leaves_of_block) ask_ahead(leaf_of(j + 1));
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
          bool mine = false;
          by_threads<kRolled>(length > 0 ? num_outputs : 0, [&](int i) {
            mine |= Reduction::refocus(focuses[i], block_values[i], count, args.finish);
          });
          again = __syncthreads_or(mine);
          if (!again) {
            by_threads<kRolled>(num_outputs, [&](int i) {
              parts[i] = length > 0 ? make_part<Reduction>(block_values[i], focuses[i], count, args.finish)
                                    : identity_of<Reduction, Part>();
            });
          }
        } else {
          by_threads<kRolled>(outputs * rows_late,
                              [&](int i) { parts[i] = length > 0 ? block_values[i] : Reduction::identity(); });
        }
      }
      if (leaves_of_block > 1) {
        by_threads<kRolled>(outputs, [&](int i) {
          Part folded[1] = {parts[i]};
          HalvesStack<Reduction, Part, 1>{leaf_stack + i, outputs}.push(folded, j, j == leaves_of_block - 1);
          parts[i] = folded[0];
        });
      }
    }
    if (!args.is_small) let_next_kernel_start();

    if (sharers > 1) {
      // Entry (z, row of the unit, split), top to bottom.
      const int num_entries = args.lane_splits * rows_late * args.splits;
      const auto entry_of = [&](int i) {
        return ((z * rows_late + i / outputs) * args.splits + split) * outputs + i % outputs;
      };
      if (args.cluster) {
        by_threads<kRolled>(share == 0 ? num_entries * outputs : 0, [&](int i) {
          if ((i / outputs & (args.splits - 1)) >= args.num_leaves) gathered[i] = identity_of<Reduction, Part>();
        });
        cluster_wait();
        Part* all = in_first_block(gathered);
        by_threads<kRolled>(outputs * rows_late, [&](int i) { all[entry_of(i)] = parts[i]; });
        cluster_arrive();
        cluster_wait();
        if (share > 0) return;
        fold_shared<Reduction>(gathered, num_entries, outputs);
        by_threads<kRolled>(outputs, [&](int i) { parts[i] = gathered[i]; });
      } else {
        Part* partials = static_cast<Part*>(args.partials) + tile * args.entries_of_tile * outputs;
        by_threads<kRolled>(outputs * rows_late, [&](int i) { partials[entry_of(i)] = parts[i]; });
        auto* folded = reinterpret_cast<Part*>(bytes + args.shared.gathered);
        const bool is_last =
            fold_over_blocks<Reduction, kRolled>(args, tile, split, partials, num_entries, outputs, parts, folded,
                                                 reinterpret_cast<Part*>(bytes + args.shared.stack));
        if (!is_last) continue;
      }
    }
    by_threads<kRolled>(num_outputs,
                        [&](int i) { store<Reduction>(args.outputs, place + i * args.place, parts[i], args.finish); });
    __syncthreads();
  }
}

}  // namespace gpureduce::cuda
