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
  Division splits;  // blocks of a row
  int leaves_per_split;
  bool one_wave;
  int64_t num_items;
  // Blocks that prefetch(), and how much of a long row each of these asks for.
  int64_t ahead_blocks, ahead_bytes;
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
    const auto* elements = reinterpret_cast<const Element*>(vectors + v);
    const auto end = static_cast<int>(slots % kSlots<Element>);
    return v == 0 && skip > 0 ? load_some(elements, skip, end, uint4{}) : load_front(elements, end);
  }
};

// The same for a row that is a chain of segments: its vectors are those that its elements would fill if they lay side
// by side, so that a lane has the same slot everywhere. kApart: vectors are located out of line.
template <class Element, bool kAligned, bool kApart>
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
    if constexpr (kApart) return locate_apart(args, row, position);
    return locate_here(args, row, position);
  }
  static __device__ __noinline__ Place locate_apart(const SegmentsArguments& args, const Element* row,
                                                    int64_t position) {
    return locate_here(args, row, position);
  }
  static __device__ __forceinline__ Place locate_here(const SegmentsArguments& args, const Element* row,
                                                      int64_t position) {
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

  // Element by element, where a segment ends in the vector: none is so short that two do. Rare, so it is kept out of
  // the loop.
  static __device__ __noinline__ uint4 gather(const SegmentsArguments& args, const Element* row, int64_t position,
                                              int count) {
    const SegmentedFrame frame{args, row, 0, 0};
    const Place here = frame.locate(position);
    const auto left = static_cast<int>(min(args.segment_elements - here.inner, int64_t{count}));
    const uint4 vector = load_some(here.elements, 0, left, uint4{});
    if (left == count) return vector;
    return load_some(frame.locate(position + left).elements - left, left, count, vector);
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

// Whether one of vectors v, v + step, ... (count of them) is a frame's last, and not loadable.
template <class Frame>
__device__ __forceinline__ bool has_last(const Frame& frame, unsigned v, unsigned step, unsigned count) {
  const unsigned end = frame.loadable();
  return end < frame.num_vectors() && end - v < count * step && (end - v) % step == 0;
}

// Vectors thread, thread + num_threads, ... of each of kRows frames, kBatch loads of each in flight. No load waits for
// a condition, and all threads walk the same number of batches: a warp that splits, or loads that are waited for one by
// one, halve the speed. What lies before vector `first` was walked already.
template <class Reduction, int kBatch, class Element, int kRows, class State, class Frame>
__device__ __forceinline__ void walk(State (&states)[kRows], const Frame (&frames)[kRows], unsigned thread,
                                     unsigned num_threads, unsigned first = 0) {
  constexpr int kCount = kSlots<Element>;
  unsigned longest = 0;
#pragma unroll
  for (int r = 0; r < kRows; r++) longest = max(longest, frames[r].num_vectors());
  for (unsigned done = first; done < longest; done += kBatch * num_threads) {
    uint4 batch[kRows][kBatch];
#pragma unroll
    for (int r = 0; r < kRows; r++) frames[r].load(batch[r], done + thread, num_threads);
    uint4 last[kRows];  // waited for together with the others
#pragma unroll
    for (int r = 0; r < kRows; r++) {
      if (Frame::kHasEnds && has_last(frames[r], done + thread, num_threads, kBatch)) last[r] = frames[r].load_last();
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
        // In front of the first element nothing is neutral where positions count.
        constexpr bool kMasks = has_neutral<Reduction> && !is_indexed<Reduction>();
        // Where not all kernels are compiled, whole vectors and others have one place where they are taken.
        constexpr bool kTakesAlike = kMasks && !has_all_kernels<Reduction, Element>;
        // Neither the first vector nor the last: whole.
        if (Frame::kHasEnds && !kTakesAlike && v - 1 < max(num_vectors, 2u) - 2) {
          states[r].take(batch[r][i], v);
          continue;
        }
        if (v >= num_vectors) continue;
        const int begin = v == 0 ? frames[r].skip : 0;
        const int end = static_cast<int>(min(frames[r].slots - v * kCount, static_cast<unsigned>(kCount)));
        const bool whole = !Frame::kHasEnds || (begin == 0 && end == kCount);
        if (!kTakesAlike && whole) {
          states[r].take(batch[r][i], v);
          continue;
        }
        if (!whole && v >= frames[r].loadable()) batch[r][i] = last[r];
        if constexpr (kMasks) {
          if (!whole) batch[r][i] = masked<Reduction, Element>(batch[r][i], begin, end);
          states[r].take(batch[r][i], v);
        } else {
          states[r].take_some(batch[r][i], v, begin, end);
        }
      }
    }
  }
}

// The whole batches of an aligned leaf, and then what is left of it. A vector's place is loaded anew as soon as it was
// taken, so that loads are always on their way: from the next batch, or from what lies behind the leaf where that is to
// be walked `next`. Says whether that was done; `loaded` is what was said of the leaf before.
template <class Reduction, class Element, int kBatch, class State>
__device__ __forceinline__ bool walk_ahead(State (&states)[1], const Frame<Element, true> (&frames)[1], unsigned thread,
                                           unsigned num_threads, uint4 (&batch)[kBatch], bool loaded, bool next) {
  const unsigned num_vectors = frames[0].num_vectors(), step = kBatch * num_threads;
  const uint4* ahead = frames[0].vectors + thread;
  unsigned done = 0;
  if (!loaded && step <= num_vectors) {
#pragma unroll
    for (int i = 0; i < kBatch; i++) batch[i] = load_streaming(ahead + i * num_threads);
  }
  bool goes_on = false;
  for (; done + step <= num_vectors; done += step) {
    ahead += step;
    goes_on = done + 2 * step <= num_vectors || (next && done + step == num_vectors);
#pragma unroll
    for (int i = 0; i < kBatch; i++) {
      states[0].take(batch[i], done + thread + i * num_threads);
      if (goes_on) batch[i] = load_streaming(ahead + i * num_threads);
    }
  }
  if (done < num_vectors) walk<Reduction, kBatch, Element>(states, frames, thread, num_threads, done);
  return goes_on;
}

// Where a thread's vectors lie, kThreads vectors apart in memory, or in the row: next(0), next(1), ..., and after as
// many of these advance().
template <int kThreads>
struct VectorsSideBySide {
  const uint4* vector;
  __device__ __forceinline__ const uint4* next(int i) const { return vector + i * kThreads; }
  __device__ __forceinline__ void advance(int count) { vector += count * kThreads; }
};
template <class Element>
struct VectorsOfSegments {
  const SegmentsArguments& args;
  const Element* elements;
  int64_t inner;  // position in the segment
  __device__ __forceinline__ const uint4* next(int) {
    const Element* here = elements;
    elements += args.step_offset;
    inner += args.step_inner;
    if (inner >= args.segment_elements) {
      inner -= args.segment_elements;
      elements += args.wrap_offset;
    }
    return reinterpret_cast<const uint4*>(here);
  }
  __device__ __forceinline__ void advance(int) const {}
};

// Leaves that a block takes one after the other, on their way through shared memory: a thread asks for its own vectors
// and waits for them alone, a group at a time, with the next ones always asked for. Registers would hold as many, but a
// warp can wait for six things apart: what shares one of these with a later load comes as late as that.
//
// With a group that starts a leaf each warp gets the leaf's first vector too, if kSamples (and all lie side by side).
template <int kThreads, bool kSamples, class Vectors>
struct RowStream {
  static constexpr int kGroup = 4, kVectorBytes = sizeof(uint4);
  static constexpr int kStep = kGroup * kThreads, kStageBytes = kStep * kVectorBytes;  // of the block
  // Groups on their way: 24 or 32 KiB, what shared memory has room for beside the lanes.
  static constexpr int kStages = kThreads == 128 ? 3 : 2, kAllStageBytes = kStages * kStageBytes;
  static constexpr int kSampleBytes = kThreads / kWarp * kVectorBytes;
  static constexpr int kAllSampleBytes = kSamples ? (kStages + 1) * kSampleBytes : 0;  // and of the leaf at hand
  static constexpr int kBytes = kAllStageBytes + kAllSampleBytes;
  Vectors vectors;   // this thread's, from the group on that is asked for next
  int groups, rest;  // that are still to be asked for, and vectors of a last, smaller one
  int groups_of_leaf, until_leaf = 0;
  uint32_t memory, samples;  // of this thread's first vector, and of its warp's
  int stage = 0;             // of the group that is taken next, in bytes
  int asked_sample = 0, sample = 0;

  __device__ __forceinline__ RowStream(const void* block_memory, const Vectors& vectors, int64_t count,
                                       int leaf_vectors)
      : vectors(vectors),
        groups(static_cast<int>(count / kStep)),
        rest(static_cast<int>(count % kStep)),
        groups_of_leaf(leaf_vectors / kStep),
        memory(shared_address(block_memory) + threadIdx.x * kVectorBytes),
        samples(shared_address(block_memory) + kAllStageBytes + threadIdx.x / kWarp * kVectorBytes) {
#pragma unroll
    for (int i = 0; i < kStages; i++) ask(i * kStageBytes);
  }

  __device__ __forceinline__ void ask(int of_stage) {
    if constexpr (kSamples) {
      if (until_leaf == 0 && groups + rest > 0) {
        until_leaf = groups_of_leaf;
        if (threadIdx.x % kWarp == 0) copy_async(samples + asked_sample, vectors.vector - threadIdx.x);
        asked_sample = after<kSampleBytes, kAllSampleBytes>(asked_sample);
      }
      until_leaf--;
    }
    const uint32_t place = memory + of_stage;
    if (groups > 0) {
      groups--;
#pragma unroll
      for (int i = 0; i < kGroup; i++) copy_async(place + i * kThreads * kVectorBytes, vectors.next(i));
    } else if (rest > 0) {
#pragma unroll
      for (int i = 0; i < kGroup; i++) {
        const uint4* vector = vectors.next(i);
        if (i * kThreads + static_cast<int>(threadIdx.x) < rest) {
          copy_async(place + i * kThreads * kVectorBytes, vector);
        }
      }
      rest = 0;
    }
    vectors.advance(kGroup);
    end_copies();
  }
  template <int kStepBytes, int kRingBytes>
  static __device__ __forceinline__ int after(int place) {
    return place == kRingBytes - kStepBytes ? 0 : place + kStepBytes;
  }

  // The first vector of the leaf that is taken next.
  __device__ __forceinline__ uint4 first_vector() {
    wait_for_copies<kStages - 1>();
    __syncwarp();
    const auto vector = load_shared<uint4>(samples + sample);
    sample = after<kSampleBytes, kAllSampleBytes>(sample);
    return vector;
  }
  // The next group, of which the block has `count` vectors.
  template <class State>
  __device__ __forceinline__ void take(State& state, int count) {
    wait_for_copies<kStages - 1>();
    const uint32_t place = memory + stage;
    const auto vector = [&](int i) { return load_shared<uint4>(place + i * kThreads * kVectorBytes); };
    if (count >= kStep) {
#pragma unroll
      for (int i = 0; i < kGroup; i++) state.take(vector(i), 0);
    } else {
#pragma unroll
      for (int i = 0; i < kGroup; i++) {
        if (i * kThreads + static_cast<int>(threadIdx.x) < count) state.take(vector(i), 0);
      }
    }
    ask(stage);
    stage = after<kStageBytes, kAllStageBytes>(stage);
  }
};

// The first focus of a leaf that starts with `vector`.
template <class Reduction, class Element>
__device__ __forceinline__ FocusOf<Reduction> focus_of(const uint4& vector, const FinishArguments& arguments) {
  if constexpr (Focused<Reduction>) {
    return first_focus<Reduction>(arguments,
                                  [&](int i) { return slot<typename Reduction::Input, Element>(vector, i); });
  } else {
    return {};
  }
}
// Of the leaf of `count` elements that starts at `first`, with a whole vector at a multiple of its size if kAligned.
template <class Reduction, bool kAligned, class Element>
__device__ __forceinline__ FocusOf<Reduction> focus_at(const Element* first, int64_t count,
                                                       const FinishArguments& arguments) {
  if constexpr (!Focused<Reduction>) {
    return {};
  } else if constexpr (kAligned && num_samples<Reduction>() > 1) {
    return focus_of<Reduction, Element>(load_streaming(reinterpret_cast<const uint4*>(first)), arguments);
  } else {
    return first_focus<Reduction>(arguments, [&](int i) {
      return widen<typename Reduction::Input>(first[min(static_cast<int64_t>(i), count - 1)]);
    });
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
      focus[r] = focus_at<Reduction, kAligned>(input + min(row_of(r), args.num_rows - 1) * args.row_stride, args.length,
                                               args.finish);
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
          const auto part = make_part<Reduction>(value, focus[r], args.length, args.finish);
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
                                  (kAligned || sizeof(Element) >= 4 ? 768 : 512) / kMaxRowThreads<Reduction, Element>)
    rows_leaf_kernel(const __grid_constant__ RowsArguments args) {
  using ThreadState = State<Reduction, Element>;
  using Part = PartOf<Reduction>;
  constexpr int kRows = rows_at_once(has_wide_lanes<Reduction>());
  static_assert(!kPair || kRows == 2);
  __shared__ BlockMemory<Reduction, Element, kMaxRowThreads<Reduction, Element>> memory[kRows];
  __shared__ Shared<FocusOf<Reduction>> focuses[kRows];
  __shared__ Shared<Part> pair[kRows];
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
      if (blockIdx.x < args.ahead_blocks && thread == r * kWarp) {
        prefetch(first, min(length_of(r) * int64_t{sizeof(Element)}, args.ahead_bytes));
      }
    }
    wait_for_previous_kernel();
    let_next_kernel_start();
#pragma unroll
    for (int r = 0; r < kRows; r++) {
      const Element* first = input + row_of(r) * args.row_stride + start_of(r);
      focus[r] = focus_at<Reduction, kAligned>(first, length_of(r), args.finish);
    }
    for (bool again = true; again;) {
      ThreadState states[kRows];
#pragma unroll
      for (int r = 0; r < kRows; r++) states[r].begin(start_of(r) - frames[r].skip, focus[r]);
      // Where not all kernels are compiled, one row has as many as each of two.
      constexpr int kMost = has_all_kernels<Reduction, Element> ? 8 / kRows : 4;
      walk<Reduction, row_batch<Reduction, Element>(kMost, kAligned), Element>(states, frames, thread, num_threads);
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
        const auto part = make_part<Reduction>(value, focus[r], length_of(r), args.finish);
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

// The parts of leaves in a block's shared memory.
template <class Part, int kBytes>
struct LeafParts {
  unsigned char* memory;
  __device__ __forceinline__ Part& operator[](int leaf) const {
    return *reinterpret_cast<Part*>(memory + leaf * kBytes);
  }
};

// Partial results to `parts` of the block: all of them, or a power of two that the others are folded to.
template <class Reduction, class Part, class Parts>
__device__ __forceinline__ void gather_parts(const Part* partials, int num_partials, Parts parts, int count) {
  constexpr int kMaxLevels = log2_of(kMaxLeaves);
  const int levels = count == num_partials ? 0 : log2_on_device(num_partials - 1) + 1 - log2_on_device(count);
#pragma unroll 2
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    Part stack[kMaxLevels], folded[1];
    for (int c = 0; c < 1 << levels; c++) {
      const int entry = reverse_bits(c, levels) * count + i;
      folded[0] = load_shared_by_blocks(partials + min(entry, num_partials - 1));
      if (entry >= num_partials) folded[0] = identity_of<Reduction, Part>();
      HalvesStack<Reduction, Part, 1>{stack, 1}.push(folded, c, c + 1 == 1 << levels);
    }
    parts[i] = folded[0];
  }
}

struct NoStream {
  static constexpr int kBytes = 16;
};

// Whether the kernel below has what comes next on its way through shared memory while what came before is taken and
// folded: where registers do not suffice, or vectors take time to find. Narrow elements of segments leave none for it.
template <class Reduction, class Element>
constexpr bool streams_rows(RowsForm form) {
  if (!Reduction::kOrdered || !has_all_kernels<Reduction, Element>) return false;
  return form == RowsForm::kSegments ? sizeof(Element) >= 4
                                     : form == RowsForm::kAlignedTicket && has_wide_lanes<Reduction>();
}

// Threads of a multiprocessor that the kernel below has registers for.
template <class Reduction, class Element>
constexpr int row_blocks_threads(RowsForm form) {
  if (form == RowsForm::kBrokenSegments || Joined<Reduction>) return 512;
  if (streams_rows<Reduction, Element>(form)) return form == RowsForm::kSegments ? 768 : 640;
  return 1024;
}

// A block walks leaves of one row, one after the other: `threads` threads for the lanes of a leaf, one warp that folds
// them while the others are at the next leaf. Thread 0 holds the row's result.
//
// kCluster: the blocks of a row are a thread block cluster with a leaf each, and the leaf values meet in the first
// one's shared memory. Otherwise they meet in memory, and the last block to draw a ticket folds them.
template <class Reduction, class Element, RowsForm kForm>
__global__ void __launch_bounds__(kMaxRowThreads<Reduction, Element>,
                                  row_blocks_threads<Reduction, Element>(kForm) / kMaxRowThreads<Reduction, Element>)
    rows_block_kernel(
        const __grid_constant__ std::conditional_t<is_segmented(kForm), SegmentsArguments, RowsArguments> args) {
  using Value = typename Reduction::Value;
  using Part = PartOf<Reduction>;
  using ThreadState = State<Reduction, Element>;
  constexpr bool kCluster = kForm == RowsForm::kCluster;
  constexpr bool kAligned = kForm == RowsForm::kAlignedTicket || kForm == RowsForm::kSegments;
  // What is kept of one-byte types in any order leaves registers for more, and two reductions at once need it.
  constexpr int kMostBatch = (sizeof(Element) == 1 && !Reduction::kOrdered) || Joined<Reduction> ? 8 : 4;
  constexpr int kBatch = is_segmented(kForm) ? 4 : row_batch<Reduction, Element>(kMostBatch, kAligned);
  constexpr bool kStreams = streams_rows<Reduction, Element>(kForm);
  // The same in registers.
  constexpr bool kAhead = kForm == RowsForm::kAlignedTicket && Reduction::kOrdered && !kStreams;
  constexpr bool kRolled = !has_all_kernels<Reduction, Element>;
  // Parts that take long to merge are folded by all threads.
  constexpr bool kFoldsByBlock = sizeof(Part) > 8 && Focused<Reduction>;
  constexpr int kMaxThreads = kMaxRowThreads<Reduction, Element>;
  constexpr bool kStreamsSamples = kStreams && Focused<Reduction> && !is_segmented(kForm);
  using Vectors = std::conditional_t<is_segmented(kForm), VectorsOfSegments<Element>, VectorsSideBySide<kMaxThreads>>;
  using Stream = std::conditional_t<kStreams, RowStream<kMaxThreads, kStreamsSamples, Vectors>, NoStream>;
  // What a leaf leaves here: the focus that it is to be walked with again, then the value that it has with a focus,
  // then its part, which is computed for all leaves at once.
  using Unfinished = UnfinishedLeaf<Reduction>;
  constexpr int kLeafBytes = leaf_bytes<Reduction>(), kMaxLeaves = max_leaves_of_block(kLeafBytes), kMaskBits = 32;
  using Memory = BlockMemory<Reduction, Element, kMaxThreads>;
  // A block has 48 KiB; 256 bytes are for what is small.
  constexpr int kOtherBytes = kMaxLeaves * kLeafBytes + Stream::kBytes + 256, kAllBytes = 48 * 1024;
  constexpr int kBuffers = 2 * sizeof(Memory) + kOtherBytes <= kAllBytes ? 2 : 1;
  __shared__ Memory memory[kBuffers];
  __shared__ alignas(16) unsigned char leaf_memory[kMaxLeaves * kLeafBytes];
  // Copies of a line that lands on two rows of banks read it twice.
  __shared__ alignas(128) unsigned char stream_memory[Stream::kBytes];
  __shared__ unsigned wait_for_focus[Focused<Reduction> ? ceil_div(kMaxLeaves, kMaskBits) : 1];
  const auto part_of = [&](int leaf) { return reinterpret_cast<Part*>(leaf_memory + leaf * kLeafBytes); };
  const auto unfinished_of = [&](int leaf) { return reinterpret_cast<Unfinished*>(leaf_memory + leaf * kLeafBytes); };
  if constexpr (kCluster) cluster_arrive();  // the first block's shared memory may be written once all have come
  const bool reads_first = kStreams && args.one_wave;

  // Long rows have all the lanes that the order gives any.
  constexpr bool kAllThreads = Reduction::kOrdered && !is_segmented(kForm);
  const int thread = threadIdx.x, num_threads = kAllThreads ? kMaxThreads : blockDim.x;
  const int num_warps = num_threads / kWarp, warp = thread / kWarp, lane = thread % kWarp;
  int buffer = 0;
  if constexpr (Focused<Reduction>) {
    for (int i = thread; i < ceil_div(kMaxLeaves, kMaskBits); i += num_threads) wait_for_focus[i] = 0;
  }
  for (int64_t item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    const auto splits = static_cast<int>(args.splits.divisor);
    const int64_t row = args.splits.quotient(item);
    const int first_leaf = static_cast<int>(item - row * splits) * args.leaves_per_split;
    const int num_leaves = min(args.leaves_per_split, args.num_leaves - first_leaf);
    const auto* elements = static_cast<const Element*>(args.input);
    int64_t place = row;
    if constexpr (is_segmented(kForm)) {
      const auto at = locate_apart(args.kept, row);
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
        return SegmentedFrame<Element, kAligned, !has_all_kernels<Reduction, Element>>{
            args, elements, start_of(i), static_cast<unsigned>(count_of(i))};
      } else {
        const bool goes_on = first_leaf + i < args.num_leaves - 1 || args.template goes_on_after<kSlots<Element>>(row);
        return Frame<Element, kAligned>(elements + start_of(i), count_of(i), goes_on);
      }
    };
    const auto first_focus_of = [&](int i) {
      if constexpr (!is_segmented(kForm)) {
        return focus_at<Reduction, kAligned>(elements + start_of(i), count_of(i), args.finish);
      } else if constexpr (kAligned || num_samples<Reduction>() == 1) {
        return focus_at<Reduction, kAligned>(frame_of(i).locate(start_of(i)).elements, count_of(i), args.finish);
      } else {
        const auto vector = frame_of(i).gather(args, elements, start_of(i), kSlots<Element>);
        return focus_of<Reduction, Element>(vector, args.finish);
      }
    };
    if (blockIdx.x < args.ahead_blocks) {
      if constexpr (is_segmented(kForm)) {
        const auto frame = frame_of(0);
#pragma unroll
        for (int i = 0; i < kBatch; i++) {
          const unsigned v = thread + i * num_threads;
          if (v < frame.loadable()) prefetch(frame.locate_vector(v).elements);
        }
      } else if (thread == 0) {
        const int64_t count = start_of(num_leaves - 1) + count_of(num_leaves - 1) - start_of(0);
        prefetch(elements + start_of(0), min(count * int64_t{sizeof(Element)}, args.ahead_bytes));
      }
    }
    wait_for_previous_kernel();
    if (!reads_first) let_next_kernel_start();
    // Segments that follow one another evenly, and fill all threads of a block; others are walked without a stream.
    bool streams = kStreams;
    if constexpr (kStreams && is_segmented(kForm)) streams = args.steps && blockDim.x == kMaxThreads;
    const auto stream_of_block = [&]() -> Stream {
      if constexpr (!kStreams) {
        return {};
      } else {
        const int last = num_leaves - 1;
        const int64_t num_vectors = (start_of(last) + count_of(last) - start_of(0)) / kSlots<Element>;
        const auto leaf_vectors = static_cast<int>(args.leaf_elements / kSlots<Element>);
        if constexpr (is_segmented(kForm)) {
          const auto place = frame_of(0).locate_vector(thread);
          return {stream_memory, Vectors{args, place.elements, place.inner}, streams ? num_vectors : 0, leaf_vectors};
        } else {
          const auto* first = reinterpret_cast<const uint4*>(elements + start_of(0));
          return {stream_memory, Vectors{first + thread}, num_vectors, leaf_vectors};
        }
      }
    };
    Stream stream = stream_of_block();
    uint4 batch[kBatch];
    bool loaded = false;
    // All leaves, and after that again those whose focus did not suit them.
    for (bool again = false, more = true; more; again = true) {
      more = false;
      for (int i = 0; i < num_leaves; i++) {
        const unsigned bit = 1u << i % kMaskBits;
        if constexpr (Focused<Reduction>) {
          if (again && !(wait_for_focus[i / kMaskBits] & bit)) continue;
        }
        const int64_t count = count_of(i);
        FocusOf<Reduction> focus{};
        if constexpr (Focused<Reduction>) {
          if (again) {
            focus = unfinished_of(i)->focus;
          } else if constexpr (kStreamsSamples) {
            focus = focus_of<Reduction, Element>(stream.first_vector(), args.finish);
          } else {
            focus = first_focus_of(i);
          }
        }
        ThreadState states[1];
        const decltype(frame_of(i)) frames[1] = {frame_of(i)};
        states[0].begin(start_of(i) - frames[0].skip, focus);
        if constexpr (kAhead) {
          const bool next = !again && i + 1 < num_leaves && count_of(i + 1) >= kBatch * num_threads * kSlots<Element>;
          loaded = walk_ahead<Reduction>(states, frames, thread, num_threads, batch, loaded, next);
        } else if (streams && !again) {
          if constexpr (kStreams) {
            auto left = static_cast<int>(count / kSlots<Element>);
            for (; left > 0; left -= Stream::kStep) stream.take(states[0], left);
          }
        } else {
          walk<Reduction, kBatch, Element>(states, frames, thread, num_threads);
        }
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
    if (reads_first) let_next_kernel_start();
    if constexpr (Focused<Reduction>) {
      by_threads<kRolled>(num_leaves, [&](int i) {
        const Unfinished leaf = *unfinished_of(i);
        *part_of(i) = make_part<Reduction>(leaf.value, leaf.focus, count_of(i), args.finish);
      });
    }

    if constexpr (kCluster) {
      cluster_wait();
      if (thread == 0) *in_first_block(part_of(first_leaf)) = *part_of(0);
      cluster_arrive();
      cluster_wait();
      if (first_leaf > 0) return;
    } else if (!kFoldsByBlock && num_leaves > 1) {
      __syncthreads();
    }
    if constexpr (kFoldsByBlock) {
      int count = kCluster ? args.num_leaves : num_leaves;
      if (!kCluster && splits > 1) {
        Part* partials = static_cast<Part*>(args.partials) + row * args.num_leaves;
        by_threads<kRolled>(num_leaves, [&](int i) { partials[first_leaf + i] = *part_of(i); });
        if (!draws_last_ticket(args.counters + row, splits)) continue;
        count = min(args.num_leaves, std::bit_floor(unsigned{kMaxLeaves}));
        gather_parts<Reduction>(partials, args.num_leaves, LeafParts<Part, kLeafBytes>{leaf_memory}, count);
      }
      fold_shared<Reduction>(LeafParts<Part, kLeafBytes>{leaf_memory}, count, 1);
      if (thread == 0) store<Reduction>(args.outputs, place, *part_of(0), args.finish);
      continue;
    }
    if (warp != 0) continue;
    __syncwarp();
    Part result = *part_of(0);
    if constexpr (kCluster) {
      result = fold_by_warp<Reduction>(args.num_leaves, [&](int i) { return *part_of(i); });
    } else if (splits > 1) {
      Part* partials = static_cast<Part*>(args.partials) + row * args.num_leaves;
      for (int i = lane; i < num_leaves; i += kWarp) partials[first_leaf + i] = *part_of(i);
      __syncwarp();
      unsigned ticket = 0;
      if (lane == 0) ticket = draw_ticket(args.counters + row, splits - 1);
      ticket = __shfl_sync(kFullMask, ticket, 0);
      __syncwarp();
      if (ticket != splits - 1u) continue;
      result = fold_by_warp<Reduction>(args.num_leaves, [&](int i) { return load_shared_by_blocks(partials + i); });
    } else if (num_leaves > 1) {
      result = fold_by_warp<Reduction>(num_leaves, [&](int i) { return *part_of(i); });
    }
    if (lane == 0) store<Reduction>(args.outputs, place, result, args.finish);
  }
}

}  // namespace gpureduce::cuda
