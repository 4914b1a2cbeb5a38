// Reductions of contiguous elements: row i starts `row_stride` elements after row i - 1, at any alignment; or a row is
// a chain of contiguous segments.
//
// A row is read in its own frame: the aligned 16-byte vectors it lies in, the ends masked. Every slot of a vector adds
// whatever lane it sees, because a fold in halves does not notice a cyclic shift of the lanes.
#pragma once

#include "cuda/axes.cuh"
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

  // Whether a 16-byte vector that row `row` ends in lies in the input with all its bytes.
  template <int kCount>
  __device__ __forceinline__ bool goes_on_after(int64_t row) const {
    return row_stride >= kCount && row + 1 < num_rows;
  }
};

// Rows that are chains of segments: the kept axes say where a row starts, the outer reduced ones where a segment does.
struct SegmentsArguments : RowsArguments {
  int64_t segment_elements;
  Divider segment_divider;
  bool narrow;  // positions in a row are below 2^31
  // From a vector to the next of the same thread, where the outer reduced axes are one (steps).
  bool steps;
  int64_t step_inner, step_offset, wrap_offset;
  const void* end;  // of the input
  AxisMap<kMaxVectorAxes> kept, segments;
};

// The vector at `elements`, of which only `begin` .. `end` may be read: the others are nobody's. Rare, so it is kept
// out of the loops that call it.
template <class Element>
__device__ __noinline__ uint4 load_some(const Element* elements, int begin, int end) {
  alignas(uint4) Element loaded[kSlots<Element>] = {};
#pragma unroll 1
  for (int k = begin; k < end; k++) loaded[k] = elements[k];
  return *reinterpret_cast<const uint4*>(loaded);
}

// The vectors that `length` elements from `first` on lie in. kAligned: they are whole, from the first to the last.
template <class Element, bool kAligned>
struct Frame {
  static constexpr bool kHasEnds = !kAligned;
  const uint4* vectors;
  int skip = 0;    // slots of vector 0 before the first element
  unsigned slots;  // from there to the end: skip + length
  bool goes_on;    // the input does not end before the last vector does

  Frame() = default;
  __device__ __forceinline__ Frame(const Element* first, int64_t length, bool goes_on) : goes_on(goes_on) {
    const auto address = reinterpret_cast<uintptr_t>(first);
    if constexpr (!kAligned) skip = static_cast<int>(address % sizeof(uint4) / sizeof(Element));
    vectors = reinterpret_cast<const uint4*>(address - skip * sizeof(Element));
    slots = static_cast<unsigned>(skip + length);
  }
  __device__ __forceinline__ unsigned num_vectors() const { return (slots + kSlots<Element> - 1) / kSlots<Element>; }

  // Vectors before this one may be read whole. Memory in front of the first element is there up to the next 16-byte
  // line, that behind the last one may not be the input's.
  __device__ __forceinline__ unsigned loadable() const {
    return kAligned || goes_on ? num_vectors() : slots / kSlots<Element>;
  }
  // Vectors v, v + step, ...; in place of those past the last loadable one, that one.
  template <int kBatch>
  __device__ __forceinline__ void load(uint4 (&batch)[kBatch], unsigned v, unsigned step) const {
    const unsigned end = loadable();
    if (!kAligned && end == 0) return;
#pragma unroll
    for (int i = 0; i < kBatch; i++) batch[i] = load_streaming(vectors + min(v + i * step, end - 1));
  }
  // The last vector, where it is not loadable.
  __device__ __forceinline__ uint4 load_last() const {
    const unsigned v = slots / kSlots<Element>;
    return load_some(reinterpret_cast<const Element*>(vectors + v), v == 0 ? skip : 0,
                     static_cast<int>(slots % kSlots<Element>));
  }
};

// The same for a row that is a chain of segments: its vectors are those that its elements would fill if they lay side
// by side, so that a lane has the same slot everywhere.
template <class Element, bool kAligned>
struct SegmentedFrame {
  const SegmentsArguments& args;
  const Element* row;
  int64_t first;  // position in the row
  unsigned slots;
  static constexpr int skip = 0;
  static constexpr bool kHasEnds = !kAligned;

  __device__ __forceinline__ unsigned num_vectors() const { return (slots + kSlots<Element> - 1) / kSlots<Element>; }
  __device__ __forceinline__ unsigned loadable() const { return slots / kSlots<Element>; }

  struct Place {
    const Element* elements;
    int64_t inner;  // in its segment
  };
  __device__ __forceinline__ Place locate(int64_t position) const {
    int64_t segment, inner;
    if (args.narrow) {
      const uint32_t quotient = args.segment_divider.quotient(static_cast<uint32_t>(position));
      segment = quotient;
      inner = static_cast<uint32_t>(position) - quotient * args.segment_divider.divisor;
    } else {
      segment = position / args.segment_elements;
      inner = position - segment * args.segment_elements;
    }
    return {row + args.segments.locate(segment).offset + inner, inner};
  }
  __device__ __forceinline__ Place locate_vector(unsigned v) const {
    return locate(first + static_cast<int64_t>(v) * kSlots<Element>);
  }
  // Of vectors v, v + step, ..., in place of those past the last loadable one that one: one division for all of them,
  // as far as possible.
  template <int kBatch>
  __device__ __forceinline__ void locate_batch(Place (&places)[kBatch], unsigned v, unsigned step) const {
    const unsigned end = loadable();
    if (args.steps && v + (kBatch - 1) * step < end) {
      places[0] = locate_vector(v);
#pragma unroll
      for (int i = 1; i < kBatch; i++) {
        places[i] = {places[i - 1].elements + args.step_offset, places[i - 1].inner + args.step_inner};
        if (places[i].inner >= args.segment_elements) {
          places[i].inner -= args.segment_elements;
          places[i].elements += args.wrap_offset;
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < kBatch; i++) places[i] = locate_vector(min(v + i * step, end - 1));
    }
  }

  // Element by element, where a segment ends in the vector. Rare, so it is kept out of the loop.
  static __device__ __noinline__ uint4 gather(const SegmentsArguments& args, const Element* row, int64_t position,
                                              int count) {
    alignas(uint4) Element loaded[kSlots<Element>] = {};
#pragma unroll 1
    for (int k = 0; k < count; k++) loaded[k] = *SegmentedFrame{args, row, 0, 0}.locate(position + k).elements;
    return *reinterpret_cast<const uint4*>(loaded);
  }

  // Vectors v, v + step, ...; in place of those past the last loadable one, that one.
  template <int kBatch>
  __device__ __forceinline__ void load(uint4 (&batch)[kBatch], unsigned v, unsigned step) const {
    if (loadable() == 0) return;
    Place places[kBatch];
    locate_batch(places, v, step);
    if constexpr (kAligned) {
#pragma unroll
      for (int i = 0; i < kBatch; i++) batch[i] = load_streaming(reinterpret_cast<const uint4*>(places[i].elements));
    } else {
      // The two vectors of memory that hold the elements are loaded for all before any is used.
      uint4 high[kBatch];
      unsigned broken = 0;  // vectors that pass from one segment to the next, or with the second load the input's end
      const auto bytes_of = [&](int i) {
        return static_cast<int>(reinterpret_cast<uintptr_t>(places[i].elements) % sizeof(uint4));
      };
#pragma unroll
      for (int i = 0; i < kBatch; i++) {
        const int bytes = bytes_of(i);
        const auto* low = reinterpret_cast<const uint4*>(reinterpret_cast<uintptr_t>(places[i].elements) - bytes);
        const bool whole = places[i].inner + kSlots<Element> <= args.segment_elements;
        const bool passes_end = bytes > 0 && low + 2 > args.end;
        broken |= static_cast<unsigned>(!whole || passes_end) << i;
        batch[i] = __ldg(low);
        high[i] = __ldg(low + (bytes > 0 && whole && !passes_end));
      }
#pragma unroll
      for (int i = 0; i < kBatch; i++) batch[i] = shift_bytes<sizeof(Element)>(batch[i], high[i], bytes_of(i));
      if (broken == 0) return;
#pragma unroll
      for (int i = 0; i < kBatch; i++) {
        if (broken >> i & 1) {
          const unsigned at = min(v + i * step, loadable() - 1);
          batch[i] = gather(args, row, first + static_cast<int64_t>(at) * kSlots<Element>, kSlots<Element>);
        }
      }
    }
  }

  __device__ __forceinline__ uint4 load_last() const {
    const unsigned v = slots / kSlots<Element>;
    return gather(args, row, first + static_cast<int64_t>(v) * kSlots<Element>,
                  static_cast<int>(slots % kSlots<Element>));
  }
};

// The vector with the neutral element in all slots but begin .. end - 1.
template <class Reduction, class Element>
__device__ __forceinline__ uint4 masked(const uint4& vector, int begin, int end) {
  const uint4 neutral = neutral_vector<Reduction, Element>();
  uint32_t words[4], neutral_words[4];
  memcpy(words, &vector, sizeof(vector));
  memcpy(neutral_words, &neutral, sizeof(neutral));
  constexpr int kSlotBits = 8 * sizeof(Element), kWordBits = 32;
#pragma unroll
  for (int w = 0; w < 4; w++) {
    // A funnel shift by a word's bits or more leaves nothing.
    const uint32_t from = __funnelshift_lc(0, ~0u, max(begin * kSlotBits - w * kWordBits, 0));
    const uint32_t past = __funnelshift_lc(0, ~0u, max(end * kSlotBits - w * kWordBits, 0));
    const uint32_t in = from & ~past;
    words[w] = (words[w] & in) | (neutral_words[w] & ~in);
  }
  uint4 result;
  memcpy(&result, words, sizeof(result));
  return result;
}

// Vectors thread, thread + num_threads, ... of each of kRows frames, kBatch loads of each in flight. No load waits for
// a condition, and all threads walk the same number of batches: a warp that splits, or loads that are waited for one by
// one, halve the speed. `loaded`: the first batch is there already.
template <class Reduction, class Element, int kBatch, int kRows, class State, class Frame>
__device__ __forceinline__ void walk(State (&states)[kRows], const Frame (&frames)[kRows], unsigned thread,
                                     unsigned num_threads, uint4 (&batch)[kRows][kBatch], bool loaded) {
  constexpr int kCount = kSlots<Element>;
  unsigned longest = 0;
#pragma unroll
  for (int r = 0; r < kRows; r++) longest = max(longest, frames[r].num_vectors());
  for (unsigned done = 0; done < longest; done += kBatch * num_threads) {
#pragma unroll
    for (int r = 0; r < kRows; r++) {
      if (done > 0 || !loaded) frames[r].load(batch[r], done + thread, num_threads);
    }
#pragma unroll
    for (int r = 0; r < kRows; r++) {
      const unsigned num_vectors = frames[r].num_vectors();
      const bool ends = Frame::kHasEnds && (done == 0 || done + kBatch * num_threads >= num_vectors);
      if (!ends && done + kBatch * num_threads <= num_vectors) {
#pragma unroll
        for (int i = 0; i < kBatch; i++) states[r].take(batch[r][i], done + thread + i * num_threads);
        continue;
      }
#pragma unroll
      for (int i = 0; i < kBatch; i++) {
        const unsigned v = done + thread + i * num_threads;
        // Neither the first vector nor the last: whole.
        if (Frame::kHasEnds && v - 1 < max(num_vectors, 2u) - 2) {
          states[r].take(batch[r][i], v);
          continue;
        }
        if (v >= num_vectors) continue;
        const int begin = v == 0 ? frames[r].skip : 0;
        const int end = static_cast<int>(min(frames[r].slots - v * kCount, static_cast<unsigned>(kCount)));
        if (!Frame::kHasEnds || (begin == 0 && end == kCount)) {
          states[r].take(batch[r][i], v);
          continue;
        }
        if (v >= frames[r].loadable()) batch[r][i] = frames[r].load_last();
        // In front of the first element nothing is neutral where positions count.
        if constexpr (has_neutral<Reduction> && !is_indexed<Reduction>()) {
          states[r].take(masked<Reduction, Element>(batch[r][i], begin, end), v);
        } else {
          states[r].take_some(batch[r][i], v, begin, end);
        }
      }
    }
  }
}

template <class Reduction, int kBatch, class Element, int kRows, class State, class Frame>
__device__ __forceinline__ void walk(State (&states)[kRows], const Frame (&frames)[kRows], unsigned thread,
                                     unsigned num_threads) {
  uint4 batch[kRows][kBatch];
  walk<Reduction, Element>(states, frames, thread, num_threads, batch, false);
}

// The focus of the leaf that starts at `first`.
template <class Reduction, class Element>
__device__ __forceinline__ FocusOf<Reduction> focus_at(const Element* first, const FinishArguments& arguments) {
  if constexpr (Focused<Reduction>) {
    return Reduction::focus(widen<typename Reduction::Input>(*first), arguments);
  } else {
    return {};
  }
}

// Threads of a row at most: one for each vector of lanes (core/order.h).
template <class Reduction, class Element>
inline constexpr int kMaxRowThreads =
    (Reduction::kOrdered && sizeof(Element) == 1) || has_wide_lanes<Reduction>() ? 128 : 256;

// Vectors of a row that a thread of a block has in flight: `most`, and one more where rows may be shifted. Such a row
// often fills all threads and has one vector more, which is to come with the others. Where there is no kernel for
// aligned rows these would pay for it.
template <class Reduction, class Element>
constexpr int row_batch(int most, bool aligned) {
  return most + (has_all_kernels<Reduction, Element> && !aligned ? 1 : 0);
}

// Up to 32 threads for each row of one leaf, any alignment, kRows rows at once and kBatch vectors of each in flight.
// All threads of a row hold its result; the first one stores it.
template <class Reduction, class Element, bool kAligned, int kBatch>
__global__ void __launch_bounds__(256) rows_warp_kernel(const __grid_constant__ RowsArguments args) {
  using ThreadState = State<Reduction, Element>;
  constexpr int kRows = rows_at_once(has_wide_lanes<Reduction>());
  wait_for_previous_kernel();
  let_next_kernel_start();
  const auto* input = static_cast<const Element*>(args.input);
  const int threads = args.threads_per_row, log2_threads = log2_on_device(threads), groups = kWarp >> log2_threads;
  const int thread = threadIdx.x & (threads - 1), group = threadIdx.x % kWarp >> log2_threads;
  for (int64_t item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    const int64_t first_row = (item * (blockDim.x / kWarp) + threadIdx.x / kWarp) * (groups * kRows) + group;
    const auto row_of = [&](int r) { return first_row + r * groups; };
    // Past the end, the last row once more.
    const auto frame_of = [&](int r) {
      const int64_t row = min(row_of(r), args.num_rows - 1);
      return Frame<Element, kAligned>(input + row * args.row_stride, args.length,
                                      args.template goes_on_after<kSlots<Element>>(row));
    };
    Frame<Element, kAligned> frames[kRows];
    FocusOf<Reduction> focus[kRows];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
      frames[r] = frame_of(r);
      focus[r] = focus_at<Reduction>(input + min(row_of(r), args.num_rows - 1) * args.row_stride, args.finish);
    }
    for (bool again = true; again;) {
      again = false;
      ThreadState states[kRows];
#pragma unroll
      for (int r = 0; r < kRows; r++) states[r].begin(-frames[r].skip, focus[r]);
      walk<Reduction, kBatch, Element>(states, frames, thread, threads);
#pragma unroll
      for (int r = 0; r < kRows; r++) {
        states[r].finish();
        const auto value = fold_states(states[r], threads / 2);
        if constexpr (Focused<Reduction>) {
          again |= __any_sync(kFullMask, Reduction::refocus(focus[r], value, args.length, args.finish));
        }
        if (!again && row_of(r) < args.num_rows && thread == 0) {
          const auto part = make_part<Reduction>(value, focus[r], args.length);
          store<Reduction>(args.outputs, row_of(r), part, args.finish);
        }
      }
    }
  }
}

// A block for kRows rows of one leaf, or for the two leaves of a row (kPair), and nothing else in it, so that many
// blocks fit a multiprocessor: while some load, others fold. Warp r folds leaf r, and its thread 0 holds the result.
template <class Reduction, class Element, bool kAligned, bool kPair>
__global__ void __launch_bounds__(kMaxRowThreads<Reduction, Element>,
                                  (kAligned ? 768 : 512) / kMaxRowThreads<Reduction, Element>)
    rows_leaf_kernel(const __grid_constant__ RowsArguments args) {
  using ThreadState = State<Reduction, Element>;
  using Part = PartOf<Reduction>;
  constexpr int kRows = rows_at_once(has_wide_lanes<Reduction>());
  static_assert(!kPair || kRows == 2);
  __shared__ BlockMemory<Reduction, Element, kMaxRowThreads<Reduction, Element>> memory[kRows];
  __shared__ Shared<FocusOf<Reduction>> focuses[kRows];
  __shared__ Shared<Part> pair[kRows];
  wait_for_previous_kernel();
  let_next_kernel_start();
  const auto* input = static_cast<const Element*>(args.input);
  const int thread = threadIdx.x, num_threads = blockDim.x;
  for (int64_t item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    const auto row_of = [&](int r) { return kPair ? item : min(item * kRows + r, args.num_rows - 1); };
    const auto start_of = [&](int r) { return kPair ? r * args.leaf_elements : 0; };
    const auto length_of = [&](int r) { return kPair && r == 0 ? args.leaf_elements : args.length - start_of(r); };
    Frame<Element, kAligned> frames[kRows];
    FocusOf<Reduction> focus[kRows];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
      const Element* first = input + row_of(r) * args.row_stride + start_of(r);
      const bool goes_on = (kPair && r == 0) || args.template goes_on_after<kSlots<Element>>(row_of(r));
      frames[r] = Frame<Element, kAligned>(first, length_of(r), goes_on);
      focus[r] = focus_at<Reduction>(first, args.finish);
    }
    for (bool again = true; again;) {
      ThreadState states[kRows];
#pragma unroll
      for (int r = 0; r < kRows; r++) states[r].begin(start_of(r) - frames[r].skip, focus[r]);
      walk<Reduction, row_batch<Reduction, Element>(8 / kRows, kAligned), Element>(states, frames, thread, num_threads);
      __syncthreads();  // the last values were read
#pragma unroll
      for (int r = 0; r < kRows; r++) {
        states[r].finish();
        memory[r].put(states[r], thread, num_threads);
      }
      __syncthreads();
      again = false;
#pragma unroll
      for (int r = 0; r < kRows; r++) {
        if (thread / kWarp != r) continue;
        const auto value = memory[r].fold(num_threads);
        if constexpr (Focused<Reduction>) again = Reduction::refocus(focus[r], value, length_of(r), args.finish);
        if (thread % kWarp > 0) continue;
        const auto part = make_part<Reduction>(value, focus[r], length_of(r));
        if (kPair) {
          pair[r].put(part);
        } else if (!again) {
          store<Reduction>(args.outputs, row_of(r), part, args.finish);
        }
        if constexpr (Focused<Reduction>) focuses[r].put(focus[r]);
      }
      if constexpr (Focused<Reduction>) {
        again = __syncthreads_or(again);
#pragma unroll
        for (int r = 0; r < kRows && again; r++) focus[r] = focuses[r].get();
      }
    }
    if constexpr (kPair) {
      __syncthreads();
      if (thread == 0) {
        store<Reduction>(args.outputs, item, Reduction::merge(pair[0].get(), pair[1].get()), args.finish);
      }
    }
  }
}

// How the blocks of a row come together, and what a row is.
enum class RowsForm { kTicket, kAlignedTicket, kCluster, kSegments, kBrokenSegments };
constexpr bool is_segmented(RowsForm form) {
  return form == RowsForm::kSegments || form == RowsForm::kBrokenSegments;
}

// A block walks leaves of one row, one after the other: `threads` threads for the lanes of a leaf, one warp that folds
// them while the others are at the next leaf. Thread 0 holds the row's result.
//
// kCluster: the blocks of a row are a thread block cluster with a leaf each, and the leaf values meet in the first
// one's shared memory. Otherwise they meet in memory, and the last block to draw a ticket folds them.
template <class Reduction, class Element, RowsForm kForm>
__global__ void __launch_bounds__(kMaxRowThreads<Reduction, Element>, (kForm == RowsForm::kBrokenSegments ? 512
                                                                       : Joined<Reduction>                ? 512
                                                                                                          : 1024) /
                                                                          kMaxRowThreads<Reduction, Element>)
    rows_block_kernel(
        const __grid_constant__ std::conditional_t<is_segmented(kForm), SegmentsArguments, RowsArguments> args) {
  using Value = typename Reduction::Value;
  using Part = PartOf<Reduction>;
  using ThreadState = State<Reduction, Element>;
  constexpr bool kCluster = kForm == RowsForm::kCluster;
  constexpr bool kAligned = kForm == RowsForm::kAlignedTicket || kForm == RowsForm::kSegments;
  // In 64 registers, or 128.
  constexpr bool kFewRegisters = (sizeof(Element) == 1 && !Reduction::kOrdered) || Joined<Reduction> ||
                                 (has_wide_lanes<Reduction>() && kForm == RowsForm::kAlignedTicket);
  constexpr int kBatch = is_segmented(kForm) ? 4 : row_batch<Reduction, Element>(kFewRegisters ? 8 : 4, kAligned);
  // Whether the next leaf is on its way while one is folded: where that costs no registers that there are not.
  constexpr bool kAhead = kForm == RowsForm::kAlignedTicket && Reduction::kOrdered && !Focused<Reduction>;
  // What a leaf leaves here: the focus that it is to be walked with again, then the value that it has with a focus,
  // then its part, which is computed for all leaves at once.
  using Unfinished = UnfinishedLeaf<Reduction>;
  constexpr int kLeafBytes = leaf_bytes<Reduction>(), kMaxLeaves = max_leaves_of_block(kLeafBytes), kMaskBits = 32;
  using Memory = BlockMemory<Reduction, Element, kMaxRowThreads<Reduction, Element>>;
  constexpr int kBuffers = sizeof(Memory) <= 16 * 1024 ? 2 : 1;  // a block has 48 KiB
  __shared__ Memory memory[kBuffers];
  __shared__ alignas(16) unsigned char leaf_memory[kMaxLeaves * kLeafBytes];
  __shared__ unsigned wait_for_focus[Focused<Reduction> ? ceil_div(kMaxLeaves, kMaskBits) : 1];
  const auto part_of = [&](int leaf) { return reinterpret_cast<Part*>(leaf_memory + leaf * kLeafBytes); };
  const auto unfinished_of = [&](int leaf) { return reinterpret_cast<Unfinished*>(leaf_memory + leaf * kLeafBytes); };
  if constexpr (kCluster) cluster_arrive();  // the first block's shared memory may be written once all have come
  wait_for_previous_kernel();
  let_next_kernel_start();

  const int thread = threadIdx.x, num_threads = blockDim.x, num_warps = num_threads / kWarp;
  const int warp = thread / kWarp, lane = thread % kWarp;
  int buffer = 0;
  if constexpr (Focused<Reduction>) {
    for (int i = thread; i < ceil_div(kMaxLeaves, kMaskBits); i += num_threads) wait_for_focus[i] = 0;
  }
  for (int64_t item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    const int64_t row = args.splits == 1 ? item : item / args.splits;
    const int first_leaf = static_cast<int>(item - row * args.splits) * args.leaves_per_split;
    const int num_leaves = min(args.leaves_per_split, args.num_leaves - first_leaf);
    const auto* elements = static_cast<const Element*>(args.input);
    int64_t place = row;
    if constexpr (is_segmented(kForm)) {
      const auto at = args.kept.locate(row);
      elements += at.offset;
      place = at.place;
    } else {
      elements += row * args.row_stride;
    }

    const auto count_of = [&](int i) {
      const int leaf = first_leaf + i;
      return leaf == args.num_leaves - 1 ? args.length - leaf * args.leaf_elements : args.leaf_elements;
    };
    const auto start_of = [&](int i) { return (first_leaf + i) * args.leaf_elements; };
    const auto frame_of = [&](int i) {
      if constexpr (is_segmented(kForm)) {
        return SegmentedFrame<Element, kAligned>{args, elements, start_of(i), static_cast<unsigned>(count_of(i))};
      } else {
        const bool goes_on = first_leaf + i < args.num_leaves - 1 || args.template goes_on_after<kSlots<Element>>(row);
        return Frame<Element, kAligned>(elements + start_of(i), count_of(i), goes_on);
      }
    };
    // All leaves, and after that again those whose focus did not suit them.
    uint4 batch[1][kBatch];
    bool loaded = false;
    for (bool again = false, more = true; more; again = true) {
      more = false;
      for (int i = 0; i < num_leaves; i++) {
        const unsigned bit = 1u << i % kMaskBits;
        if constexpr (Focused<Reduction>) {
          if (again && !(wait_for_focus[i / kMaskBits] & bit)) continue;
        }
        const int64_t count = count_of(i);
        const decltype(frame_of(i)) frames[1] = {frame_of(i)};
        FocusOf<Reduction> focus{};
        if constexpr (Focused<Reduction>) {
          const Element* first = elements + start_of(i);
          if constexpr (is_segmented(kForm)) first = frames[0].locate(start_of(i)).elements;
          focus = again ? unfinished_of(i)->focus : focus_at<Reduction>(first, args.finish);
        }
        ThreadState states[1];
        states[0].begin(start_of(i) - frames[0].skip, focus);
        walk<Reduction, Element>(states, frames, thread, num_threads, batch, loaded);
        loaded = kAhead && i + 1 < num_leaves;
        if (loaded) frame_of(i + 1).load(batch[0], thread, num_threads);
        states[0].finish();
        if constexpr (kBuffers == 1) __syncthreads();
        memory[buffer].put(states[0], thread, num_threads);
        __syncthreads();  // with two buffers the other one was read before this barrier, so that one is enough
        if (warp == i % num_warps) {
          const Value value = memory[buffer].fold(num_threads);
          if constexpr (Focused<Reduction>) {
            const bool unfit = Reduction::refocus(focus, value, count, args.finish);
            more |= unfit;
            if (lane == 0 && unfit != again) atomicXor(&wait_for_focus[i / kMaskBits], bit);
            if (lane == 0) *unfinished_of(i) = {focus, value};
          } else if (lane == 0) {
            *part_of(i) = value;
          }
        }
        buffer = (buffer + 1) % kBuffers;
      }
      if constexpr (Focused<Reduction>) more = __syncthreads_or(more);
    }
    if constexpr (Focused<Reduction>) {
      for (int i = thread; i < num_leaves; i += num_threads) {
        const Unfinished leaf = *unfinished_of(i);
        *part_of(i) = make_part<Reduction>(leaf.value, leaf.focus, count_of(i));
      }
    }

    if constexpr (kCluster) {
      cluster_wait();
      if (thread == 0) *in_first_block(part_of(first_leaf)) = *part_of(0);
      cluster_arrive();
      cluster_wait();
      if (first_leaf > 0) return;
    } else if (num_leaves > 1) {
      __syncthreads();
    }
    if (warp != 0) continue;
    __syncwarp();
    Part result = *part_of(0);
    if constexpr (kCluster) {
      result = fold_by_warp<Reduction>(args.num_leaves, [&](int i) { return *part_of(i); });
    } else if (args.splits > 1) {
      Part* partials = static_cast<Part*>(args.partials) + row * args.num_leaves;
      for (int i = lane; i < num_leaves; i += kWarp) partials[first_leaf + i] = *part_of(i);
      __syncwarp();
      unsigned ticket = 0;
      if (lane == 0) ticket = draw_ticket(args.counters + row, args.splits - 1);
      ticket = __shfl_sync(kFullMask, ticket, 0);
      __syncwarp();
      if (ticket != args.splits - 1u) continue;
      result = fold_by_warp<Reduction>(args.num_leaves, [&](int i) { return load_shared_by_blocks(partials + i); });
    } else if (num_leaves > 1) {
      result = fold_by_warp<Reduction>(num_leaves, [&](int i) { return *part_of(i); });
    }
    if (lane == 0) store<Reduction>(args.outputs, place, result, args.finish);
  }
}

}  // namespace gpureduce::cuda
