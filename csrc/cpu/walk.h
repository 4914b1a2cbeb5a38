// The order of combination (core/order.h) walked on a CPU.
//
// A tile is `width` outputs along the innermost kept axis. Its lanes lie in memory as [lane][output], so that a
// position shared by all outputs, or a run of lanes of a single one, is a plain loop over neighbours that the compiler
// vectorises.
#pragma once

#include <algorithm>
#include <memory>

#include "core/order.h"
#include "cpu/run.h"

namespace gpureduce::cpu {

// `count` elements, `stride` apart, taken into as many neighbouring values.
template <class Reduction, class Element>
struct Taker {
  using Value = typename Reduction::Value;
  using Input = typename Reduction::Input;
  const Call& call;

  void operator()(Value* __restrict values, int64_t count, int64_t offset, int64_t stride, int64_t place,
                  int64_t place_step) const {
    if constexpr (is_converted<Element>) {
      constexpr int64_t kChunk = 256;
      Input inputs[kChunk];
      for (int64_t done = 0; done < count; done += kChunk) {
        const int64_t chunk = std::min(kChunk, count - done);
        convert_run(inputs, chunk, offset + done * stride, stride);
        take(values + done, chunk, inputs, 1, place + done * place_step, place_step);
      }
    } else {
      take(values, count, static_cast<const Element*>(call.input) + offset, stride, place, place_step);
    }
  }

 private:
  template <class Source>
  static void take(Value* __restrict values, int64_t count, const Source* __restrict source, int64_t stride,
                   int64_t place, int64_t place_step) {
    if (stride == 1) {  // by itself, for the vectoriser
      for (int64_t i = 0; i < count; i++) {
        values[i] = Reduction::take(values[i], convert<Input>(source[i]), place + i * place_step);
      }
    } else {
      for (int64_t i = 0; i < count; i++) {
        values[i] = Reduction::take(values[i], convert<Input>(source[i * stride]), place + i * place_step);
      }
    }
  }

  void convert_run(Input* __restrict inputs, int64_t count, int64_t offset, int64_t stride) const {
    dispatch(call.input_dtype, [&]<class From>() {
      const From* source = static_cast<const From*>(call.input) + offset;
      dispatch(call.through, [&]<class Through>() {
        if constexpr (std::is_same_v<Accumulator<Through>, Input>) {
          for (int64_t i = 0; i < count; i++) inputs[i] = convert<Input>(convert<Through>(source[i * stride]));
        }
      });
    });
  }
};

// Calls f(offset, place, lane, count) for runs of positions start .. start + length - 1 that stay in the innermost axis
// and do not pass the last lane.
template <class F>
void for_each_run(const AxisList& axes, int64_t start, int64_t length, int64_t lanes, F f) {
  if (axes.count == 0) {
    if (length > 0) f(int64_t{0}, int64_t{0}, int64_t{0}, length);
    return;
  }
  const Axis& inner = axes.innermost();
  for (int64_t i = 0; i < length;) {
    int64_t position = start + i, offset = 0, place = 0;
    const int64_t at = position % inner.size;
    for (int a = axes.count - 1; a >= 0; a--) {
      const int64_t coordinate = a > 0 ? position % axes[a].size : position;
      offset += coordinate * axes[a].stride;
      place += coordinate * axes[a].place;
      position /= axes[a].size;
    }
    const int64_t lane = i & (lanes - 1);
    const int64_t count = std::min({length - i, axes.count == 1 ? length : inner.size - at, lanes - lane});
    f(offset, place, lane, count);
    i += count;
  }
}

// Folds values[count][width] in halves down to values[width].
template <class Reduction, class Value>
void fold(Value* values, int64_t count, int64_t width) {
  for (int64_t half = count / 2; half >= 1; half /= 2) {
    Value* __restrict low = values;
    const Value* __restrict high = values + half * width;
    for (int64_t i = 0; i < half * width; i++) low[i] = Reduction::merge(low[i], high[i]);
  }
}

template <class Reduction, class Element>
class Walk {
 public:
  explicit Walk(const Call& call)
      : call_(call),
        problem_(call.problem),
        order_(make_order(problem_.length, problem_.element_bytes, has_wide_lanes<Reduction>())) {
    if (problem_.kept.count > 0) inner_ = problem_.kept.innermost();
    choose_width();
    tiles_per_row_ = ceil_div(inner_.size, width_);
    num_tiles_ = problem_.num_outputs / inner_.size * tiles_per_row_;
  }

  void run() const {
    // About this many elements make a piece of work that is worth a thread.
    constexpr int64_t kGrainElements = 32768, kFewTiles = 64;
    const int64_t leaves = order_.num_leaves;
    if (leaves == 1 || num_tiles_ > kFewTiles) {
      const int64_t grain = ceil_div(kGrainElements, std::max<int64_t>(1, width_ * problem_.length));
      call_.parallel_for(num_tiles_, grain, [&](int64_t begin, int64_t end) {
        const auto lanes = buffer(order_.lanes);
        const auto leaf_values = buffer(padded_leaves());
        for (int64_t tile = begin; tile < end; tile++) {
          for (int64_t leaf = 0; leaf < leaves; leaf++) walk_leaf(tile, leaf, lanes.get(), leaf_values.get());
          finish(tile, leaf_values.get());
        }
      });
      return;
    }
    const auto leaf_values = buffer(num_tiles_ * padded_leaves());
    const auto of_tile = [&](int64_t tile) { return leaf_values.get() + tile * padded_leaves() * width_; };
    const int64_t grain = ceil_div(kGrainElements, std::max<int64_t>(1, width_ * order_.leaf_elements));
    call_.parallel_for(num_tiles_ * leaves, grain, [&](int64_t begin, int64_t end) {
      const auto lanes = buffer(order_.lanes);
      for (int64_t i = begin; i < end; i++) walk_leaf(i / leaves, i % leaves, lanes.get(), of_tile(i / leaves));
    });
    for (int64_t tile = 0; tile < num_tiles_; tile++) finish(tile, of_tile(tile));
  }

 private:
  using Value = typename Reduction::Value;

  // Several outputs at once where their elements are neighbours, or where a reduction is too short for a loop of its
  // own.
  void choose_width() {
    constexpr int64_t kLaneBytes = 128 * 1024, kShortBytes = 512;
    const bool columns = problem_.reduced.count == 0 || inner_.stride < problem_.reduced.innermost().stride;
    if (!columns && problem_.length * problem_.element_bytes > kShortBytes) return;
    const int64_t fits = kLaneBytes / (order_.lanes * static_cast<int64_t>(sizeof(Value)));
    width_ = std::clamp<int64_t>(fits, 16, 256);
    width_ = std::min(width_, inner_.size);
  }

  int64_t padded_leaves() const { return next_power_of_two(order_.num_leaves); }
  std::unique_ptr<Value[]> buffer(int64_t rows) const { return std::make_unique_for_overwrite<Value[]>(rows * width_); }

  // Offset of a tile's first output in the input, its place in the output, and how many outputs it has.
  struct Tile {
    int64_t offset, place, width;
  };
  Tile locate(int64_t tile) const {
    const int64_t first = tile % tiles_per_row_ * width_;
    Tile at{first * inner_.stride, first * inner_.place, std::min(width_, inner_.size - first)};
    int64_t row = tile / tiles_per_row_;
    for (int a = problem_.kept.count - 2; a >= 0; a--) {
      const Axis& axis = problem_.kept[a];
      at.offset += row % axis.size * axis.stride;
      at.place += row % axis.size * axis.place;
      row /= axis.size;
    }
    return at;
  }

  // The leaf's value goes to leaf_values[leaf][output].
  void walk_leaf(int64_t tile, int64_t leaf, Value* lanes, Value* leaf_values) const {
    const Tile at = locate(tile);
    std::fill_n(lanes, order_.lanes * at.width, Reduction::identity());
    const Taker<Reduction, Element> take{call_};
    const bool single = problem_.reduced.count == 0;
    const Axis inner = single ? Axis{1, 0, 0} : problem_.reduced.innermost();
    for_each_run(problem_.reduced, leaf * order_.leaf_elements, order_.leaf_length(leaf, problem_.length), order_.lanes,
                 [&](int64_t offset, int64_t place, int64_t lane, int64_t count) {
                   if (at.width == 1) {
                     take(lanes + lane, count, at.offset + offset, inner.stride, place, inner.place);
                     return;
                   }
                   for (int64_t i = 0; i < count; i++) {
                     take(lanes + (lane + i) * at.width, at.width, at.offset + offset + i * inner.stride, inner_.stride,
                          place + i * inner.place, 0);
                   }
                 });
    fold<Reduction>(lanes, order_.lanes, at.width);
    std::copy_n(lanes, at.width, leaf_values + leaf * at.width);
  }

  void finish(int64_t tile, Value* leaf_values) const {
    const Tile at = locate(tile);
    std::fill_n(leaf_values + order_.num_leaves * at.width, (padded_leaves() - order_.num_leaves) * at.width,
                Reduction::identity());
    fold<Reduction>(leaf_values, padded_leaves(), at.width);
    for_each_output<Reduction, Value>(call_.outputs, [&]<int kIndex, class Out>(void* data) {
      Out* output = static_cast<Out*>(data) + at.place;
      for (int64_t j = 0; j < at.width; j++) {
        output[j * inner_.place] = to_element<Out>(gpureduce::finish<Reduction, kIndex>(leaf_values[j], call_.finish));
      }
    });
  }

  const Call& call_;
  const Problem& problem_;
  const Order order_;
  Axis inner_{1, 0, 1};
  int64_t width_ = 1, tiles_per_row_ = 1, num_tiles_ = 1;
};

}  // namespace gpureduce::cpu
