// Reductions over any strides, element by element. A block takes a tile: `units` outputs x `lanes` lanes of one leaf. A
// thread walks its lanes in bit-reversed order and folds them on a stack; the block folds its threads; the last block
// of a tile folds leaves and lane splits.
//
// A lane is split, top to bottom, as (lane of the thread | thread | block), so that each of the three folds is a fold
// in halves of what the one before left.
#pragma once

#include "cuda/columns.cuh"

namespace gpureduce::cuda {

struct TilesArguments {
  const void* input;
  Outputs outputs;
  unsigned* counters;
  void* partials;
  FinishArguments finish;
  int64_t length, leaf_elements;
  int64_t num_outputs, num_tiles, num_items;
  int order_lanes, num_leaves;
  int units, lanes, lanes_per_thread, lane_splits;
  int splits, leaves_per_split;
  bool lanes_first;
  TilesShared shared;
  DType input_dtype, through;
  AxisMap<kMaxAxes> kept, reduced;
};

// An element, as it lies in memory until it is used. One whose dtype is known at run time only is converted as it is
// read.
template <class Element>
struct Loaded {
  Element element;
  __device__ __forceinline__ void load(const TilesArguments& args, int64_t offset) {
    element = static_cast<const Element*>(args.input)[offset];
  }
  template <class Input>
  __device__ __forceinline__ Input as() const {
    return widen<Input>(element);
  }
};
// Two switches over all dtypes, so it is kept out of the kernels.
template <class Acc>
__device__ __noinline__ Acc read_apart(const void* input, int64_t offset, DType from, DType through) {
  return read_converted<Acc>(input, offset, from, through);
}
template <class Acc>
struct Loaded<Converted<Acc>> {
  Acc value;
  __device__ __forceinline__ void load(const TilesArguments& args, int64_t offset) {
    value = read_apart<Acc>(args.input, offset, args.input_dtype, args.through);
  }
  template <class Input>
  __device__ __forceinline__ Input as() const {
    return value;
  }
};

template <class Reduction, class Element, int kLanes, int kRounds>
struct TileWalk {
  using Value = typename Reduction::Value;
  using Input = typename Reduction::Input;
  static constexpr bool kSteps = kRounds > 1;

  // The fold of all lanes of one leaf that a thread walks: lanes (q * lanes + y) * lane_splits + z for every q. kLanes
  // of them with kRounds elements each are in flight. A leaf is far shorter than 2^31 (core/order.h).
  static __device__ __forceinline__ Value leaf(const TilesArguments& args, int64_t offset, int64_t start, int length,
                                               int y, int z, const FocusOf<Reduction>& focus,
                                               HalvesStack<Reduction, Value, 1> stack) {
    const int bits = 31 - __clz(args.lanes_per_thread);
    Value folded[1];
    for (int c = 0; c < args.lanes_per_thread; c += kLanes) {
      Value values[kLanes];
      int first[kLanes];
      Cursor<kMaxAxes> cursors[kLanes];
#pragma unroll
      for (int l = 0; l < kLanes; l++) {
        const int q = reverse_bits(c + l, bits);
        first[l] = c + l < args.lanes_per_thread ? (q * args.lanes + y) * args.lane_splits + z : length;
        if (kSteps && first[l] < length) cursors[l].start(args.reduced, start + first[l], offset);
        values[l] = Reduction::identity();
      }
      for (int round = 0; round < length; round += kRounds * args.order_lanes) {
        Loaded<Element> elements[kLanes][kRounds];
        int64_t places[kLanes][kRounds];
#pragma unroll
        for (int l = 0; l < kLanes; l++) {
#pragma unroll
          for (int r = 0; r < kRounds; r++) {
            const int i = round + r * args.order_lanes + first[l];
            if constexpr (has_neutral<Reduction>) elements[l][r] = {Reduction::neutral()};
            places[l][r] = std::numeric_limits<int64_t>::max();
            if (i < length) {
              if constexpr (kSteps) {
                elements[l][r].load(args, cursors[l].at.offset);
                places[l][r] = cursors[l].at.place;
                cursors[l].advance(args.reduced);
              } else {
                const auto at = args.reduced.locate(start + i);
                elements[l][r].load(args, offset + at.offset);
                places[l][r] = at.place;
              }
            }
          }
        }
#pragma unroll
        for (int l = 0; l < kLanes; l++) {
#pragma unroll
          for (int r = 0; r < kRounds; r++) {
            if (has_neutral<Reduction> || round + r * args.order_lanes + first[l] < length) {
              values[l] = take_element<Reduction>(values[l], elements[l][r].template as<Input>(), places[l][r], focus);
            }
          }
        }
      }
      // Lanes came in bit-reversed order: neighbours first is halves.
#pragma unroll
      for (int step = 1; step < kLanes; step *= 2) {
#pragma unroll
        for (int l = 0; l < kLanes; l += 2 * step) values[l] = Reduction::merge(values[l], values[l + step]);
      }
      folded[0] = values[0];
      stack.push(folded, c / kLanes, c + kLanes >= args.lanes_per_thread);
    }
    return folded[0];
  }

  static __device__ __forceinline__ FocusOf<Reduction> focus_of(const TilesArguments& args, int64_t offset,
                                                                int64_t start, int length) {
    if constexpr (Focused<Reduction>) {
      if (length > 0) {
        return first_focus<Reduction>(args.finish, [&](int i) {
          Loaded<Element> element;
          element.load(args, offset + locate_apart(args.reduced, start + min(i, length - 1)).offset);
          return element.template as<Input>();
        });
      }
    }
    return {};
  }
};

template <class Reduction, class Element, int kLanes, int kRounds>
__global__ void __launch_bounds__(256, 2) tiles_kernel(const __grid_constant__ TilesArguments args) {
  using Walk = TileWalk<Reduction, Element, kLanes, kRounds>;
  using Value = typename Reduction::Value;
  using Part = PartOf<Reduction>;
  using Focus = FocusOf<Reduction>;
  constexpr bool kRolled = !has_all_kernels<Reduction, Element>;
  extern __shared__ uint4 shared_memory[];
  wait_for_previous_kernel();
  let_next_kernel_start();

  const int thread = threadIdx.x, threads = blockDim.x, outputs = args.units;
  const int x = args.lanes_first ? thread / args.lanes : thread % args.units;
  const int y = args.lanes_first ? thread % args.lanes : thread / args.units;
  const int padded_leaves = args.num_leaves == 1 ? 1 : 1 << (32 - __clz(args.num_leaves - 1));
  const int num_entries = args.lane_splits * padded_leaves;
  auto* bytes = reinterpret_cast<unsigned char*>(shared_memory);
  auto* block_values = reinterpret_cast<Value*>(bytes);
  auto* stack = reinterpret_cast<Value*>(bytes + args.shared.stack) + thread;
  auto* parts = reinterpret_cast<Part*>(bytes + args.shared.parts);
  auto* focuses = reinterpret_cast<Focus*>(bytes + args.shared.focus);

  // Nothing is shared: a thread has its outputs to itself. Without this way they meet no others, but at barriers.
  if (has_all_kernels<Reduction, Element> && args.lanes == 1 && num_entries == 1) {
    const auto step = static_cast<int64_t>(gridDim.x) * threads;
    const int length = static_cast<int>(args.length);
    for (int64_t output = static_cast<int64_t>(blockIdx.x) * threads + thread; output < args.num_outputs;
         output += step) {
      const auto at = locate_apart(args.kept, output);
      Focus focus = Walk::focus_of(args, at.offset, 0, length);
      Part result;
      for (bool again = true; again;) {
        const Value value = Walk::leaf(args, at.offset, 0, length, 0, 0, focus, {stack, threads});
        result = make_part<Reduction>(value, focus, length, args.finish);
        again = false;
        if constexpr (Focused<Reduction>) again = length > 0 && Reduction::refocus(focus, value, length, args.finish);
      }
      store<Reduction>(args.outputs, at.place, result, args.finish);
    }
    return;
  }

  for (int64_t item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    const int64_t tile = item % args.num_tiles;
    const int share = static_cast<int>(item / args.num_tiles);
    const int split = share / args.lane_splits, z = share % args.lane_splits;
    const int first_leaf = split * args.leaves_per_split;
    const int end_leaf = min(first_leaf + args.leaves_per_split, args.num_leaves);
    const int64_t output = tile * outputs + x;
    const bool active = x < outputs && y < args.lanes && output < args.num_outputs;
    const int64_t offset = active ? locate_apart(args.kept, output).offset : 0;
    Part* partials = static_cast<Part*>(args.partials) + tile * num_entries * outputs;

    for (int leaf = first_leaf; leaf < end_leaf; leaf++) {
      const int64_t start = leaf * args.leaf_elements;
      const int length = static_cast<int>(leaf == args.num_leaves - 1 ? args.length - start : args.leaf_elements);
      if constexpr (Focused<Reduction>) {
        if (active && y == 0) focuses[x] = Walk::focus_of(args, offset, start, length);
      }
      for (bool again = true; again;) {
        if constexpr (Focused<Reduction>) __syncthreads();
        Focus focus{};
        if constexpr (Focused<Reduction>) {
          if (active) focus = focuses[x];
        }
        const Value folded = Walk::leaf(args, offset, start, active ? length : 0, y, z, focus, {stack, threads});
        __syncthreads();  // the last leaf's values were read
        if (x < outputs && y < args.lanes) block_values[y * outputs + x] = folded;
        fold_shared<Reduction>(block_values, args.lanes, outputs);
        again = false;
        if constexpr (Focused<Reduction>) {
          bool mine = false;
          by_threads<kRolled>(length > 0 ? outputs : 0, [&](int i) {
            if (tile * outputs + i < args.num_outputs) {
              mine |= Reduction::refocus(focuses[i], block_values[i], length, args.finish);
            }
          });
          again = __syncthreads_or(mine);
        }
      }
      by_threads<kRolled>(outputs, [&](int i) {
        Focus focus{};
        if constexpr (Focused<Reduction>) focus = focuses[i];
        const Part part = make_part<Reduction>(block_values[i], focus, length, args.finish);
        if (num_entries > 1) {
          partials[static_cast<int64_t>(z * padded_leaves + leaf) * outputs + i] = part;
        } else {
          parts[i] = part;
        }
      });
    }

    if (num_entries > 1) {
      const int sharers = args.splits * args.lane_splits;
      __shared__ bool is_last;
      __syncthreads();
      if (thread == 0) is_last = sharers == 1 || draw_ticket(args.counters + tile, sharers - 1) == sharers - 1u;
      __syncthreads();
      if (!is_last) continue;
      int step = 1;
      while (2 * step * outputs <= threads && 2 * step <= num_entries) step *= 2;
      auto* entries_stack = reinterpret_cast<Part*>(bytes + args.shared.stack) + thread;
      by_threads<true>(step * outputs, [&](int i) {
        parts[i] = fold_entries<Reduction, kRolled ? 4 : 8>(
            partials + i % outputs, num_entries, i / outputs, step, outputs,
            HalvesStack<Reduction, Part, 1>{entries_stack, threads},
            [&](int entry) { return (entry & (padded_leaves - 1)) < args.num_leaves; });
      });
      fold_shared<Reduction>(parts, step, outputs);
    } else {
      __syncthreads();
    }
    by_threads<true>(outputs, [&](int i) {
      const int64_t of = tile * outputs + i;
      if (of < args.num_outputs) {
        store<Reduction>(args.outputs, locate_apart(args.kept, of).place, parts[i], args.finish);
      }
    });
    __syncthreads();
  }
}

}  // namespace gpureduce::cuda
