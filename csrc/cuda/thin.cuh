// Reductions of few elements each of many neighbouring outputs: a thread has a vector of outputs to itself, and shares
// nothing with the others.
//
// It walks the lanes of its outputs in bit-reversed order, kRows of them in flight, and folds what these batches leave
// on a stack. Where the order is free it takes the rows as they come.
#pragma once

#include "cuda/axes.cuh"
#include "cuda/fold.cuh"
#include "cuda/launch.h"
#include "cuda/packed.cuh"
#include "cuda/rows.cuh"
#include "cuda/unit.cuh"

namespace gpureduce::cuda {

struct ThinArguments {
  const void* input;
  Outputs outputs;
  FinishArguments finish;
  int64_t row_stride, row_place;  // of the reduced axis, in elements
  int length, lanes;              // elements of an output; a power of two, kRows at least
  int64_t width;                  // outputs of a row
  int64_t num_vectors, num_items;
  int64_t ahead_blocks;  // that prefetch()
  Division vectors_per_row;
  AxisMap<kMaxVectorAxes> kept;  // the outer axes: one matrix each
  const void* end;               // of the input
};

// A vector of one row. kShifted: at any alignment, from the two vectors of memory that hold it. `whole`: neither of
// these passes the end of the input.
template <class Element, int kVector, bool kShifted>
struct ThinLoad {
  using Vector = Unit<Element, kVector>;
  Vector vector;

  __device__ __forceinline__ void fill(const Vector& with) { vector = with; }
  __device__ __forceinline__ void load(const Element* elements, bool) { vector.load(elements); }
  __device__ __forceinline__ Vector get(const ThinArguments&, const Element*, bool) const { return vector; }
  static __device__ __forceinline__ bool is_whole(const ThinArguments&, const Element*) { return true; }
};
template <class Element, int kVector>
struct ThinLoad<Element, kVector, true> {
  using Vector = Unit<Element, kVector>;
  static_assert(sizeof(Vector) == sizeof(uint4));
  uint4 low, high;

  static __device__ __forceinline__ int bytes_of(const Element* elements) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(elements) % sizeof(uint4));
  }
  static __device__ __forceinline__ const uint4* low_of(const Element* elements) {
    return reinterpret_cast<const uint4*>(reinterpret_cast<uintptr_t>(elements) - bytes_of(elements));
  }
  static __device__ __forceinline__ bool is_whole(const ThinArguments& args, const Element* elements) {
    return low_of(elements) + (bytes_of(elements) > 0 ? 2 : 1) <= args.end;
  }

  // Neighbours read each other's vectors, which are to stay in L1.
  __device__ __forceinline__ void load(const Element* elements, bool whole) {
    if (!whole) return;
    low = __ldg(low_of(elements));
    high = __ldg(low_of(elements) + (bytes_of(elements) > 0));
  }
  __device__ __forceinline__ Vector get(const ThinArguments& args, const Element* elements, bool whole) const {
    if (whole) return {shift_bytes<sizeof(Element)>(low, high, bytes_of(elements))};
    const int64_t there = static_cast<const Element*>(args.end) - elements;
    const auto count = static_cast<int>(max(int64_t{0}, min(there, int64_t{kVector})));
    return {load_some(elements, 0, count, uint4{})};
  }
};

template <class Reduction, class Element, int kRows, bool kShifted>
struct ThinWalk {
  static constexpr int kVector = kTileVector<Reduction, Element>;
  static constexpr int kLevels = std::bit_width(unsigned{kRows}) - 1;
  using Value = typename Reduction::Value;
  using Input = typename Reduction::Input;
  using Part = PartOf<Reduction>;
  using Focus = FocusOf<Reduction>;
  using Vector = Unit<Element, kVector>;
  using Load = ThinLoad<Element, kVector, kShifted>;
  using Stack = HalvesStack<Reduction, Value, kVector>;

  // Few rows are loaded whether they are there or not; for many it pays to tell whole batches from others.
  static constexpr bool kTellsWhole = kRows == kThinLoads;

  // The outputs' elements. Only the last row may pass the end of the input: others have a row behind them.
  struct Columns {
    const Element* elements;
    int short_row;  // or -1
  };
  static __device__ __forceinline__ Columns columns_at(const ThinArguments& args, const Element* elements) {
    const int last = args.length - 1;
    return {elements, Load::is_whole(args, elements + last * args.row_stride) ? -1 : last};
  }

  // kRows rows, in the order they are taken: where the order binds, lanes in bit-reversed order.
  struct Batch {
    int first, step, short_row;
    const Element* elements;  // of the first one
    int64_t stride;           // a step
    const Element* row_0;

    static __device__ __forceinline__ int steps(int r) { return Reduction::kOrdered ? reverse_bits(r, kLevels) : r; }
    __device__ __forceinline__ int row(int r) const { return first + steps(r) * step; }
    __device__ __forceinline__ const Element* at(int r) const { return elements + steps(r) * stride; }
    // Shifted: in place of a row that is not there, or not whole, row 0, so that no load waits for a condition.
    __device__ __forceinline__ void load(Load& to, int r, bool there) const {
      if constexpr (kShifted) {
        to.load(there && row(r) != short_row ? at(r) : row_0, short_row != 0);
      } else if (there) {
        to.load(at(r), row(r) != short_row);
      }
    }
    __device__ __forceinline__ Vector get(const ThinArguments& args, const Load& loaded, int r, bool there) const {
      const Vector vector = loaded.get(args, at(r), row(r) != short_row);
      if constexpr (has_neutral<Reduction> && kShifted) {
        if (!there) return Vector::filled_with(Reduction::neutral());
      }
      return vector;
    }
    __device__ __forceinline__ bool is_whole(int length) const {
      return kTellsWhole && first + (kRows - 1) * step < length;
    }
  };
  static __device__ __forceinline__ int num_batches(const ThinArguments& args) {
    return Reduction::kOrdered ? args.lanes / kRows : (args.length + kRows - 1) / kRows;
  }
  static __device__ __forceinline__ Batch batch_of(const ThinArguments& args, const Columns& columns, int number) {
    const int step = Reduction::kOrdered ? args.lanes / kRows : 1;
    const int first = Reduction::kOrdered ? reverse_bits(number, log2_on_device(step)) : number * kRows;
    const Element* elements = columns.elements + first * args.row_stride;
    return {first, step, columns.short_row, elements, step * args.row_stride, columns.elements};
  }

  template <bool kWhole>
  static __device__ __forceinline__ void load(const ThinArguments& args, const Batch& batch, Load (&loads)[kRows]) {
#pragma unroll
    for (int r = 0; r < kRows; r++) {
      if constexpr (has_neutral<Reduction> && !kShifted) {
        if (!kWhole) loads[r].fill(Vector::filled_with(Reduction::neutral()));
      }
      batch.load(loads[r], r, kWhole || batch.row(r) < args.length);
    }
  }
  static __device__ __forceinline__ void load(const ThinArguments& args, const Batch& batch, Load (&loads)[kRows]) {
    if (batch.is_whole(args.length)) {
      load<true>(args, batch, loads);
    } else {
      load<false>(args, batch, loads);
    }
  }

  // The fold of a batch's lanes; where the order is free, of its rows and of what `values` held.
  template <bool kWhole>
  static __device__ __forceinline__ void fold(const ThinArguments& args, const Batch& batch, const Load (&loads)[kRows],
                                              const Focus (&focus)[kVector], Value (&values)[kVector]) {
    Value unfolded[kLevels + 1][kVector];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
      const bool there = kWhole || batch.row(r) < args.length;
      if constexpr (Reduction::kOrdered) {
#pragma unroll
        for (int k = 0; k < kVector; k++) values[k] = Reduction::identity();
      }
      // A condition that the loads share would have them waited for one by one.
      if (there || has_neutral<Reduction>) {
        const Vector vector = batch.get(args, loads[r], r, there);
#pragma unroll
        for (int k = 0; k < kVector; k++) {
          values[k] =
              take_next<Reduction>(values[k], vector.template at<Input>(k), batch.row(r) * args.row_place, focus[k]);
        }
      }
      if constexpr (Reduction::kOrdered) {
        fold_in_turn<Reduction>(unfolded, values, r);
      }
    }
  }

  // Calls f(batch) for one batch after the other, with its rows in `loads`, where those of the first one are already.
  template <class F>
  static __device__ __forceinline__ void for_each_batch(const ThinArguments& args, const Columns& columns,
                                                        Load (&loads)[kRows], F f) {
    const int batches = num_batches(args);
    for (int number = 0; number < batches; number++) {
      const Batch batch = batch_of(args, columns, number);
      if (number > 0) load(args, batch, loads);
      f(batch, number, number + 1 == batches);
    }
  }

  // Asks for the first rows of the warp's outputs, `count` of them. Out of line, where it takes no registers of the
  // walk.
  static __device__ __noinline__ void ask_ahead(const ThinArguments& args, const Columns& columns, int64_t count) {
    const Batch batch = batch_of(args, columns, 0);
#pragma unroll 1
    for (int r = 0; r < kRows; r++) {
      if (batch.row(r) < args.length) prefetch(batch.at(r), count * int64_t{sizeof(Element)});
    }
  }

  static __device__ __forceinline__ void begin(const ThinArguments& args, const Columns& columns,
                                               Focus (&focus)[kVector]) {
    if constexpr (Focused<Reduction>) {
      constexpr int kSamples = num_samples<Reduction>();
      Vector samples[kSamples];
#pragma unroll
      for (int i = 0; i < kSamples; i++) {
        const int row = min(i, args.length - 1);
        const Element* elements = columns.elements + row * args.row_stride;
        Load loaded;
        loaded.load(elements, row != columns.short_row);
        samples[i] = loaded.get(args, elements, row != columns.short_row);
      }
#pragma unroll
      for (int k = 0; k < kVector; k++) {
        focus[k] = first_focus<Reduction>(args.finish, [&](int i) { return samples[i].template at<Input>(k); });
      }
    }
  }

  // Whether the outputs have to be walked again, with another focus.
  static __device__ __forceinline__ bool walk(const ThinArguments& args, const Columns& columns, Load (&loads)[kRows],
                                              Focus (&focus)[kVector], Stack stack, Part (&results)[kVector]) {
    Value values[kVector];
    if constexpr (packs_columns<Reduction, Element>) {
      PackedColumns<Reduction, Element> packed;
      packed.begin();
      for_each_batch(args, columns, loads, [&](const Batch& batch, int, bool) {
#pragma unroll
        for (int r = 0; r < kRows; r++) {
          packed.take(batch.get(args, loads[r], r, batch.row(r) < args.length).word, batch.row(r));
        }
      });
#pragma unroll
      for (int k = 0; k < kVector; k++) {
        values[k] = packed.value(
            k, [&](int slot) { return find_nan<Reduction>(columns.elements + slot, args.row_stride, args.length); });
        if constexpr (finds_position<Reduction>) values[k].index *= args.row_place;
      }
    } else {
#pragma unroll
      for (int k = 0; k < kVector; k++) values[k] = Reduction::identity();
      for_each_batch(args, columns, loads, [&](const Batch& batch, int number, bool is_last) {
        if (batch.is_whole(args.length)) {
          fold<true>(args, batch, loads, focus, values);
        } else {
          fold<false>(args, batch, loads, focus, values);
        }
        if constexpr (Reduction::kOrdered) stack.push(values, number, is_last);
      });
    }
    bool again = false;
#pragma unroll
    for (int k = 0; k < kVector; k++) {
      if constexpr (Focused<Reduction>) {
        again |= Reduction::refocus(focus[k], values[k], args.length, args.finish);
      }
      results[k] = make_part<Reduction>(values[k], focus[k], args.length, args.finish);
    }
    return again;
  }
};

// Blocks of a multiprocessor: so many that their loads keep memory busy. Values of several words, and the two vectors
// for each load of shifted rows, take more registers.
template <class Reduction, class Element>
constexpr int thin_blocks(int rows, bool shifted) {
  constexpr size_t kFocusBytes = Focused<Reduction> ? sizeof(FocusOf<Reduction>) : 0;
  constexpr int kState = (sizeof(typename Reduction::Value) + kFocusBytes) * kTileVector<Reduction, Element>;
  constexpr bool kWide = kState > 32;
  if (shifted || kWide) return 2;
  return rows == 2 ? 6 : rows == 4 ? 5 : 4;
}

template <class Reduction, class Element, int kRows, bool kShifted>
__global__ void __launch_bounds__(kThinThreads, thin_blocks<Reduction, Element>(kRows, kShifted))
    thin_kernel(const __grid_constant__ ThinArguments args) {
  using Walk = ThinWalk<Reduction, Element, kRows, kShifted>;
  constexpr int kVector = Walk::kVector;
  extern __shared__ uint4 shared_memory[];
  __shared__ StoreMemory<widest_results<Reduction, PartOf<Reduction>>(kVector), kThinThreads> store_memory;
  const typename Walk::Stack stack{reinterpret_cast<typename Walk::Value*>(shared_memory) + threadIdx.x,
                                   static_cast<int>(blockDim.x)};
  for (int64_t item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    const int64_t number = item * blockDim.x + threadIdx.x, vector = min(number, args.num_vectors - 1);
    int64_t column = vector * kVector, place = column;
    const auto* elements = static_cast<const Element*>(args.input);
    if (args.kept.count > 0) {
      const int64_t matrix = args.vectors_per_row.quotient(vector);
      const auto at = args.kept.locate(matrix);
      column -= matrix * args.vectors_per_row.divisor * kVector;
      place = at.place + column;
      elements += at.offset;
    }
    const auto columns = Walk::columns_at(args, elements + column);
    if (blockIdx.x < args.ahead_blocks && threadIdx.x % kWarp == 0) {
      const int64_t count = min(int64_t{kWarp}, args.num_vectors - vector) * kVector;
      Walk::ask_ahead(args, columns, min(count, args.width - column));
    }
    wait_for_previous_kernel();
    let_next_kernel_start();
    typename Walk::Load loads[kRows];
    FocusOf<Reduction> focus[kVector];
    PartOf<Reduction> results[kVector];
    bool again = false;
    do {
      Walk::load(args, Walk::batch_of(args, columns, 0), loads);
      if (Focused<Reduction> && !again) Walk::begin(args, columns, focus);
      again = Walk::walk(args, columns, loads, focus, stack, results);
    } while (again);
    const bool there = number < args.num_vectors, whole = !kShifted || args.width - column >= kVector;
    store_neighbours<Reduction>(args.outputs, place, results, there && whole, args.finish, store_memory.of_warp());
    if (there && !whole) {
      store_some<Reduction>(args.outputs, place, results, static_cast<int>(args.width - column), args.finish);
    }
  }
}

}  // namespace gpureduce::cuda
