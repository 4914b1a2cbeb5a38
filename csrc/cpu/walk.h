// The order of combination (core/order.h) walked on a CPU.
//
// A tile is a number of outputs along the innermost kept axis. Its lanes lie in memory as [lane][output], so that what
// happens to all of them is a pass over neighbours (cpu/loops.h). A leaf's lanes are walked in segments that stay in
// the first-level cache. Segments come in bit-reversed order: then two that fold follow each other, and a stack of one
// segment a level holds all that is unfinished.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

#include "core/order.h"
#include "cpu/axes.h"
#include "cpu/copy.h"
#include "cpu/loops.h"
#include "cpu/packed.h"
#include "cpu/run.h"
#include "cpu/store.h"
#include "cpu/sums.h"

namespace gpureduce::cpu {

// Uninitialised, on a cache line. A small one is part of the object: small calls allocate nothing.
template <class T>
class Buffer {
 public:
  explicit Buffer(int64_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes > sizeof inside_) outside_ = ::operator new(bytes, kAlignment);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { ::operator delete(outside_, kAlignment); }
  T* get() const { return static_cast<T*>(outside_ != nullptr ? outside_ : inside_); }

  static constexpr int64_t kBytesInside = 4096;

 private:
  static constexpr std::align_val_t kAlignment{64};
  alignas(64) mutable std::byte inside_[kBytesInside];
  void* outside_ = nullptr;
};

// How the outputs of a problem are grouped, and what they are read from.
enum class Layout : uint8_t {
  kRows,       // one output at a time, along its elements
  kColumns,    // neighbouring outputs at once
  kShortRows,  // as kColumns, on a transposed copy of a few rows
};

// Small floats whose conversion is no single instruction are widened to float32 before a reduction sees them, unless it
// looks at their bits.
template <class Reduction, class Element>
inline constexpr bool is_widened =
    is_small_float<Element> && !std::is_same_v<Element, BFloat16> && std::is_same_v<typename Reduction::Input, float> &&
    (Reduction::kOrdered || !(ExtremeSearch<Reduction, Element>::kHas || is_count<Reduction>()));

template <class Reduction, class Element>
class Walk {
 public:
  explicit Walk(const Call& call) : call_(call), problem_(call.problem), reduced_(order_of_walk(call.problem)) {
    if (problem_.kept.count > 0) inner_ = problem_.kept.innermost();
    if (reduced_.count > 0) step_ = reduced_.innermost();
    if constexpr (kMayUseIndex) even_places_ = has_even_indices(reduced_);
    choose_layout();
    choose_order();
    choose_segment();
    if (kSums && call.isa != Isa::kBaseline && problem_.element_bytes == sizeof(Element)) {
      sums_rows_ = layout_ == Layout::kRows && is_row() && RowSum::can(order_.lanes);
      sums_columns_ = layout_ == Layout::kColumns && inner_.stride == 1 && reduced_.count == 1 && order_.lanes >= 4 &&
                      longest_leaf_rounds() <= QuarterRows<Element>::kMostRounds;
    }
    tiles_per_row_ = ceil_div(inner_.size, width_);
    num_tiles_ = problem_.num_outputs / inner_.size * tiles_per_row_;
  }

  void run() const {
    // About this many elements make a piece of work that is worth a thread.
    constexpr int64_t kGrainElements = 32768, kFewTiles = 64;
    const int64_t leaves = order_.num_leaves;
    const bool is_small = problem_.num_outputs * problem_.length <= kGrainElements;
    if (leaves == 1 || num_tiles_ > kFewTiles || call_.num_threads == 1 || is_small) {
      const int64_t grain = ceil_div(kGrainElements, std::max<int64_t>(1, width_ * problem_.length));
      call_.parallel_for(num_tiles_, grain, [&](int64_t begin, int64_t end) {
        const Scratch scratch(*this);
        const Buffer<Part> leaf_values(padded_leaves() * width_);
        for (int64_t t = begin; t < end; t++) {
          const Tile tile = locate(t);
          for (int64_t leaf = 0; leaf < leaves; leaf++) {
            walk_leaf(tile, leaf, scratch, leaf_values.get() + leaf * tile.width);
          }
          finish(tile, leaf_values.get());
        }
      });
      return;
    }
    const Buffer<Part> leaf_values(num_tiles_ * padded_leaves() * width_);
    const auto of_tile = [&](int64_t t) { return leaf_values.get() + t * padded_leaves() * width_; };
    const int64_t grain = ceil_div(kGrainElements, std::max<int64_t>(1, width_ * order_.leaf_elements));
    call_.parallel_for(num_tiles_ * leaves, grain, [&](int64_t begin, int64_t end) {
      const Scratch scratch(*this);
      for (int64_t i = begin; i < end; i++) {
        const Tile tile = locate(i / leaves);
        walk_leaf(tile, i % leaves, scratch, of_tile(i / leaves) + i % leaves * tile.width);
      }
    });
    for (int64_t t = 0; t < num_tiles_; t++) finish(locate(t), of_tile(t));
  }

 private:
  using Value = typename Reduction::Value;
  using Part = PartOf<Reduction>;
  using Focus = FocusOf<Reduction>;
  using Input = typename Reduction::Input;
  // These come through a buffer of what take() is given.
  static constexpr bool kConverted = is_converted<Element>, kBuffered = kConverted || is_widened<Reduction, Element>;
  // Leaves are combined in the order, what is in one of them is not.
  static constexpr bool kOnlyLeavesOrdered = !Reduction::kOrdered && !std::is_same_v<Value, Part>;
  // What rows are read as.
  using Source = std::conditional_t<kBuffered, Input, Element>;
  using General = PackedLane<Reduction, Source>;
  static constexpr bool kMayUseIndex = is_indexed<Reduction>();
  static constexpr SharedFocus<NoFocus> kNoFocus{};
  // AVX-512 reads no faster from memory. It is compiled where lanes are the native ones of a vector unit, for what many
  // calls are of.
  static constexpr bool kWide = !kConverted && std::is_arithmetic_v<Value> && is_common<Reduction>();

  static constexpr bool kSearches = ExtremeSearch<Reduction, Source>::kHas;
  static constexpr bool kSums = has_leaf_sum<Reduction, Element>;
  using RowSum = LeafSum<std::conditional_t<kSums, Element, float>>;
  // Up to here it pays to walk rows as columns, transposed. Where neighbours have a loop, what that saves is the fold
  // of a row's lanes or the way to a position.
  static constexpr int64_t kShortBytes = 512;
  static constexpr int64_t kShortElements = Reduction::kOrdered || kSearches ? 64 : 128;
  static constexpr int64_t kShortPlainBytes =
      kSearches && !finds_position<Reduction> ? 32 : std::min<int64_t>(kShortBytes, kShortElements * sizeof(Source));

  // An ordered reduction's lanes are its values; another's may be packed.
  struct OrderedLane {
    using Value = Walk::Value;
    static constexpr Value identity() { return Reduction::identity(); }
    static constexpr Value take(Value value, Source x, int64_t index, const Focus& focus) {
      return take_element<Reduction>(value, convert<Input>(x), index, focus);
    }
    static constexpr Value merge(Value a, Value b) { return Reduction::merge(a, b); }
  };

  // Some outputs along the innermost kept axis: the offset of the first in the input, its place in the output.
  struct Tile {
    int64_t offset, place, width;
  };

  // Where a tile's rows are read: position p of its outputs is at offset + p * step, in `base` or, where the positions
  // have several axes, at wherever those lead.
  struct Reader {
    const Source* base;
    int64_t offset, width, step, output_stride;
    bool plain;  // one axis, and whole segments are neighbours
  };

  // A position is where an element stands in logical order: such elements are walked in that order.
  static decltype(auto) order_of_walk(const Problem& problem) {
    if constexpr (finds_position<Reduction>) {
      return in_logical_order(problem.reduced);
    } else {
      return (problem.reduced);
    }
  }

  void choose_layout() {
    constexpr int64_t kTileBytes = 4096, kBlockBytes = 16384, kTileRows = 16;
    constexpr int64_t kSize = sizeof(Value);
    const bool plain = !kBuffered && is_row();
    const int64_t row_bytes = problem_.length * problem_.element_bytes;
    const bool one = problem_.num_outputs == 1;
    if (!one && (problem_.reduced.count == 0 || inner_.stride < problem_.reduced.innermost().stride)) {
      layout_ = Layout::kColumns;
      width_ = std::max<int64_t>(kTileBytes / kSize, 64);
      // A few tiles for each thread where leaves do not make enough pieces.
      constexpr int64_t kNarrowest = 128;
      if (inner_.size > width_ && call_.num_threads > 1) {
        const int64_t pieces = 2 * call_.num_threads * inner_.size / problem_.num_outputs;
        width_ = std::clamp(inner_.size / std::max<int64_t>(1, pieces), std::min(kNarrowest, width_), width_);
      }
    } else if (!one && row_bytes <= (plain ? kShortPlainBytes : kShortBytes)) {
      layout_ = Layout::kShortRows;
      width_ = std::clamp<int64_t>(kBlockBytes / row_bytes, 32, 1024) / 16 * 16;
    } else {
      layout_ = Layout::kRows;
      width_ = kTileRows;
    }
    width_ = std::min(width_, inner_.size);
    plain_rows_ = plain && layout_ == Layout::kRows;
  }

  void choose_order() {
    if constexpr (Reduction::kOrdered) {
      order_ = make_order(problem_.length, problem_.element_bytes, has_wide_lanes<Reduction>());
      return;
    }
    // Any order: lanes for a pass of some length, leaves for threads to share.
    // Few lanes, so that what is read runs straight through memory.
    constexpr int64_t kPassBytes = 256, kLeafElements = 65536, kMaxLeaves = 512;
    int64_t lanes = kPassBytes / problem_.element_bytes;
    if (layout_ == Layout::kColumns) lanes = dense() ? kSegmentValues / next_power_of_two(width_) : 1;
    if (layout_ == Layout::kShortRows) lanes = 1;
    // Half the length or less, so that every lane of the last leaf has an element.
    lanes = std::clamp<int64_t>(next_power_of_two(problem_.length) / 8, 1, std::max<int64_t>(1, lanes));
    order_.lanes = lanes;
    const int64_t least = kLeafElements / (layout_ == Layout::kRows ? 1 : width_);
    order_.leaf_elements =
        std::max({2 * lanes, next_power_of_two(least), next_power_of_two(problem_.length) / kMaxLeaves});
    order_.num_leaves = std::max<int64_t>(1, (problem_.length + order_.leaf_elements / 2) / order_.leaf_elements);
    if constexpr (kOnlyLeavesOrdered) {
      order_ = make_order(problem_.length, problem_.element_bytes, has_wide_lanes<Reduction>());
      order_.lanes = lanes;
    }
  }

  void choose_segment() {
    segment_lanes_ = order_.lanes;
    if (layout_ != Layout::kRows) {
      const bool whole = layout_ == Layout::kShortRows || dense();
      while (segment_lanes_ > 1 && (!whole || segment_lanes_ * width_ > kSegmentValues)) segment_lanes_ /= 2;
      // A tree's first fold is that of two segments.
      if (Reduction::kOrdered && is_tree() && segment_lanes_ == order_.lanes && order_.lanes > 1) segment_lanes_ /= 2;
    }
  }

  static constexpr int64_t kSegmentValues = 2048 / std::max<int64_t>(1, sizeof(Value) / 8);

  // Whether the elements of a row are neighbours in the input.
  bool is_row() const { return reduced_.count == 1 && step_.stride == 1; }
  // Whether the rows of a tile of columns follow each other without a gap.
  bool dense() const {
    return inner_.stride == 1 && reduced_.count == 1 && step_.stride == width_ && width_ == inner_.size;
  }
  // Whether no lane takes more than one element.
  bool is_tree() const { return order_.lanes >= problem_.length; }
  int64_t padded_leaves() const { return next_power_of_two(order_.num_leaves); }
  int64_t segment_values(int64_t width) const { return segment_lanes_ * width; }

  // What one thread works in.
  struct Scratch {
    explicit Scratch(const Walk& walk)
        : width(walk.layout_ == Layout::kRows ? 1 : walk.width_),
          values(walk.num_scratch_values(width)),
          rows(walk.reads_in_place() ? 0 : kRounds * walk.segment_values(width)),
          block(walk.layout_ == Layout::kShortRows ? walk.problem_.length * width : 0),
          widened(walk.widens_block() ? walk.problem_.length * width : 0),
          spare(walk.sums_columns_ ? 2 * walk.segment_values(width) : 0),
          focuses(Focused<Reduction> ? walk.segment_values(width) : 0),
          samples(Focused<Reduction> ? num_samples<Reduction>() * width : 0),
          totals(Focused<Reduction> ? width : 0),
          packed(Reduction::kOrdered || walk.searches_rows() ? 0 : 4 * walk.segment_values(width)) {}
    int64_t width;
    Buffer<Value> values;         // the stack of segments
    Buffer<Source> rows;          // rows that are not neighbours in the input
    Buffer<Source> block;         // short rows, transposed
    Buffer<Source> widened;       // and before, where they are not read as they lie
    Buffer<Element> spare;        // a row of zeros, and one that is filled up with them
    Buffer<Focus> focuses;        // of every lane of a segment
    Buffer<Input> samples;        // the first elements of a leaf
    Buffer<Value> totals;         // folded lanes, until they are measured against the focus
    Buffer<std::int64_t> packed;  // lanes of an order-free reduction
  };

  bool searches_rows() const { return kSearches && plain_rows_; }
  int64_t num_scratch_values(int64_t width) const {
    if (searches_rows()) return 0;
    if (sums_rows_) return order_.lanes;
    return (log2_of(order_.lanes / segment_lanes_) + 2) * segment_values(width);
  }
  // Whether all that is read lies as a pass needs it: in the input, or in a block that was transposed.
  bool reads_in_place() const {
    return layout_ == Layout::kShortRows || (layout_ == Layout::kRows && !kBuffered && is_row()) || sums_rows_ ||
           sums_columns_;
  }

  Tile locate(int64_t t) const {
    const int64_t first = t % tiles_per_row_ * width_;
    Tile tile{first * inner_.stride, first * inner_.place, std::min(width_, inner_.size - first)};
    int64_t row = t / tiles_per_row_;
    for (int a = problem_.kept.count - 2; a >= 0; a--) {
      const Axis& axis = problem_.kept[a];
      tile.offset += row % axis.size * axis.stride;
      tile.place += row % axis.size * axis.place;
      row /= axis.size;
    }
    return tile;
  }

  // ---- reading

  const Source* input() const {
    if constexpr (kBuffered)
      return nullptr;
    else
      return static_cast<const Source*>(call_.input);
  }
  // Whether short rows that follow each other without a gap are widened before they are transposed.
  bool widens_block() const {
    return kBuffered && layout_ == Layout::kShortRows && is_row() && inner_.stride == problem_.length;
  }

  Reader reader_of(const Tile& tile, const Scratch& scratch) const {
    if (layout_ == Layout::kRows) {
      return {input(), tile.offset, 1, step_.stride, 0, !kBuffered && is_row()};
    }
    if (layout_ == Layout::kColumns) {
      const bool neighbours = inner_.stride == 1 || tile.width == 1;
      return {input(),
              tile.offset,
              tile.width,
              step_.stride,
              inner_.stride,
              !kBuffered && neighbours && reduced_.count <= 1 && (segment_lanes_ == 1 || step_.stride == tile.width)};
    }
    Source* block = scratch.block.get();
    if (!kBuffered && is_row()) {
      transpose_rows(block, input() + tile.offset, inner_.stride, tile.width);
    } else if (widens_block()) {
      copy_grid(scratch.widened.get(), tile.offset, {1, 0, tile.width * problem_.length, 1});
      transpose_rows(block, scratch.widened.get(), problem_.length, tile.width);
    } else {
      copy_positions(block, 0, problem_.length, {input(), tile.offset, tile.width, step_.stride, inner_.stride, false});
    }
    return {block, 0, tile.width, tile.width, 1, true};
  }

  void transpose_rows(Source* block, const Source* rows, int64_t row_step, int64_t num_rows) const {
    transpose(call_.isa, block, rows, sizeof(Source), row_step, num_rows, problem_.length);
  }

  // `count` positions of the reader's outputs, as neighbours: in the input, or copied to `buffer`.
  const Source* read(const Reader& reader, int64_t position, int64_t count, Source* buffer) const {
    if (reader.plain) return reader.base + reader.offset + position * reader.step;
    copy_positions(buffer, position, count, reader);
    return buffer;
  }

  [[gnu::noinline]] void copy_positions(Source* target, int64_t position, int64_t count, const Reader& reader) const {
    while (count > 0) {
      // A run stays in the innermost axis.
      const int64_t offset = reader.offset + place_of(reduced_, position).offset;
      const int64_t run = reduced_.count > 1 ? std::min(count, step_.size - position % step_.size) : count;
      copy_run(target, run, offset, reader);
      target += run * reader.width;
      position += run;
      count -= run;
    }
  }

  void copy_run(Source* target, int64_t count, int64_t offset, const Reader& reader) const {
    if (reader.width == 1) {
      copy_grid(target, offset, {1, 0, count, reader.step});
    } else if (reader.output_stride == 1 && reader.step == reader.width) {
      copy_grid(target, offset, {1, 0, count * reader.width, 1});
    } else {
      copy_grid(target, offset, {count, reader.step, reader.width, reader.output_stride});
    }
  }

  void copy_grid(Source* target, int64_t offset, const Grid& grid) const {
    if constexpr (kBuffered) {
      const DType through = kConverted ? call_.through : DType::kFloat32;
      copy_converted(call_.isa, target, call_.input, offset, call_.input_dtype, through, grid);
    } else {
      copy(target, input() + offset, sizeof(Source), grid);
    }
  }

  // Calls f(rows, row step, done, rounds) for pieces of `rounds` rows of `count` positions, a round of all lanes apart:
  // one piece if they lie at even steps in the input, else as many as the buffer holds.
  template <class F>
  void read_rounds(const Reader& reader, int64_t position, int64_t rounds, int64_t count, const Scratch& scratch,
                   F f) const {
    const int64_t pieces = reader.plain ? rounds : kRounds;
    for (int64_t done = 0; done < rounds; done += pieces) {
      const int64_t piece = std::min(pieces, rounds - done), from = position + done * order_.lanes;
      const Source* rows = reader.base + reader.offset + from * reader.step;
      int64_t row_step = order_.lanes * reader.step;
      if (!reader.plain) {
        rows = scratch.rows.get();
        row_step = count * reader.width;
        for (int64_t r = 0; r < piece; r++) {
          copy_positions(scratch.rows.get() + r * row_step, from + r * order_.lanes, count, reader);
        }
      }
      f(rows, row_step, done, piece);
    }
  }

  // Of `count` positions from `position` on, `width` elements each.
  Indices indices_of(int64_t position, int64_t count, int64_t width) const {
    const int64_t index = kMayUseIndex ? place_of(reduced_, position).index : 0;
    if (width == 1) return {index, 1, count, 0, step_.place};
    if (kMayUseIndex) return {index, count, width, step_.place, 0};
    return {index, 1, count * width, 0, 0};
  }

  // ---- taking

  template <class Lane, class Focuses>
  void take(typename Lane::Value* lanes, const Reader& reader, int64_t position, int64_t rounds, int64_t count,
            bool first, const Focuses& focuses, const Scratch& scratch) const {
    if (!kMayUseIndex || even_places_) {
      take_evenly<Lane>(lanes, reader, position, rounds, count, first, focuses, scratch);
      return;
    }
    // Places are even along the innermost axis.
    for (int64_t r = 0; r < rounds; r++) {
      for (int64_t done = 0; done < count;) {
        const int64_t from = position + r * order_.lanes + done;
        const int64_t run = std::min(count - done, step_.size - from % step_.size);
        take_evenly<Lane>(lanes + done * reader.width, reader, from, 1, run, first && r == 0, focuses, scratch);
        done += run;
      }
    }
  }

  template <class Lane, class Focuses>
  void take_evenly(typename Lane::Value* lanes, const Reader& reader, int64_t position, int64_t rounds, int64_t count,
                   bool first, const Focuses& focuses, const Scratch& scratch) const {
    const int64_t round_step = order_.lanes * step_.place;
    read_rounds(reader, position, rounds, count, scratch,
                [&](const Source* rows, int64_t row_step, int64_t done, int64_t piece) {
                  const Indices indices = indices_of(position + done * order_.lanes, count, reader.width);
                  const bool from_identity = first && done == 0;
                  run_on<kWide>(call_.isa, [=]<Isa kIsa>() {
                    take_rounds<kIsa, Lane>(lanes, rows, row_step, piece, from_identity, focuses, indices, round_step);
                  });
                });
  }

  // `rounds` whole rounds of a segment's lanes from `position` on, and of its first `rest` lanes one more.
  template <class Lane, class Focuses>
  void take_all(typename Lane::Value* lanes, const Reader& reader, int64_t position, int64_t rounds, int64_t rest,
                const Focuses& focuses, const Scratch& scratch) const {
    if (rounds == 0) std::fill_n(lanes, segment_values(reader.width), Lane::identity());
    take<Lane>(lanes, reader, position, rounds, segment_lanes_, true, focuses, scratch);
    if (rest > 0) take<Lane>(lanes, reader, position + rounds * order_.lanes, 1, rest, false, focuses, scratch);
  }

  void merge(Value* low, const Value* high, int64_t count) const {
    run_on<kWide>(call_.isa, [=]<Isa kIsa>() { merge_values<Reduction>(low, high, count); });
  }
  void fold(Value* values, int64_t count, int64_t width) const {
    if (count > 1) run_on<kWide>(call_.isa, [=]<Isa kIsa>() { fold_values<kIsa, Reduction>(values, count, width); });
  }

  // Leaves are few: what they are made of is no reason for loops of their own.
  void fold_leaves(Part* parts, int64_t width) const {
    if constexpr (std::is_same_v<Part, Value>) {
      fold(parts, padded_leaves(), width);
    } else {
      for (int64_t size = padded_leaves() / 2 * width; size >= width; size /= 2) {
        merge_values<Reduction>(parts, parts + size, size);
      }
    }
  }

  // ---- leaves: the value of each output goes to values[output]

  // One copy for all who call it, which is compiled once.
  [[gnu::noinline]] void walk_leaf(const Tile& tile, int64_t leaf, const Scratch& scratch, Part* values) const {
    if (sums_rows_) {
      if constexpr (kSums) sum_leaves_of_rows(tile, leaf, scratch, values);
    } else if (sums_columns_) {
      if constexpr (kSums) sum_leaf_of_columns(tile, leaf, scratch, values);
    } else if (plain_rows_) {
      walk_leaves_of_rows(tile, leaf, scratch, values);
    } else if (layout_ == Layout::kRows) {
      for (int64_t j = 0; j < tile.width; j++) {
        const Tile row{tile.offset + j * inner_.stride, 0, 1};
        walk_leaf_of(reader_of(row, scratch), leaf, scratch, values + j);
      }
    } else {
      walk_leaf_of(reader_of(tile, scratch), leaf, scratch, values);
    }
  }

  // This leaf of every row of a tile.
  template <class Stored>
  RowLeaves<Stored> leaves_of_rows(const Tile& tile, int64_t leaf) const {
    constexpr int64_t kCachedBytes = 1 << 20;  // about what a processor's own caches hold
    const int64_t start = leaf * order_.leaf_elements;
    return {static_cast<const Stored*>(call_.input) + tile.offset + start,
            inner_.stride,
            tile.width,
            order_.leaf_length(leaf, problem_.length),
            order_.lanes,
            start * step_.place,
            step_.place,
            problem_.num_outputs * problem_.length * problem_.element_bytes >= kCachedBytes};
  }

  void sum_leaves_of_rows(const Tile& tile, int64_t leaf, const Scratch& scratch, Part* values) const {
    const RowLeaves<Element> leaves = leaves_of_rows<Element>(tile, leaf);
    Value* lanes = scratch.values.get();
    run_on<kWide>(call_.isa, [=]<Isa kIsa>() {
      if constexpr (kIsa != Isa::kBaseline) sum_rows(leaves, lanes, values);
    });
  }

  int64_t longest_leaf_rounds() const {
    const int64_t last = order_.leaf_length(order_.num_leaves - 1, problem_.length);
    return ceil_div(order_.num_leaves > 1 ? std::max(last, order_.leaf_elements) : last, order_.lanes);
  }

  // As walk_in_order, with quarters of the lanes instead of all of them, and +0 at the end as in LeafSum::sum.
  void sum_leaf_of_columns(const Tile& tile, int64_t leaf, const Scratch& scratch, Part* values) const {
    const int64_t start = leaf * order_.leaf_elements, length = order_.leaf_length(leaf, problem_.length);
    const Element* elements = static_cast<const Element*>(call_.input) + tile.offset + start * step_.stride;
    const int64_t quarter = order_.lanes / 4, segment = std::min(segment_lanes_, quarter);
    const int64_t size = segment * tile.width;
    const int bits = log2_of(quarter / segment);
    std::fill_n(scratch.spare.get(), size, Element{});
    int64_t depth = 0;
    for (int64_t visit = 0; visit < quarter / segment; visit++) {
      int64_t number = 0;
      for (int b = 0; b < bits; b++) number |= (visit >> b & 1) << (bits - 1 - b);
      const int64_t first = number * segment;
      QuarterRows<Element> quarters;
      quarters.rounds = quarters.padded(ceil_div(length - first, order_.lanes));
      for (int k = 0; k < 4; k++) {
        for (int r = 0; r < quarters.rounds; r++) {
          const int64_t position = first + k * quarter + r * order_.lanes;
          const int64_t count = std::clamp<int64_t>(length - position, 0, segment);
          const Element* row = count > 0 ? elements + position * step_.stride : scratch.spare.get();
          if (count > 0 && count < segment) {
            Element* filled = scratch.spare.get() + size;
            std::fill_n(std::copy_n(row, count * tile.width, filled), size - count * tile.width, Element{});
            row = filled;
          }
          quarters.rows[k][r] = row;
        }
      }
      Value* sums = scratch.values.get() + depth++ * size;
      run_on<kWide>(call_.isa, [=, &quarters]<Isa kIsa>() {
        if constexpr (kIsa != Isa::kBaseline) fold_quarters(sums, quarters, size);
      });
      for (int64_t done = visit; done & 1; done >>= 1, depth--) {
        Value* low = scratch.values.get() + (depth - 2) * size;
        merge(low, low + size, size);
      }
    }
    fold(scratch.values.get(), segment, tile.width);
    for (int64_t j = 0; j < tile.width; j++) values[j] = scratch.values.get()[j] + Value(0);
  }

  void walk_leaves_of_rows(const Tile& tile, int64_t leaf, const Scratch& scratch, Part* parts) const {
    const RowLeaves<Source> leaves = leaves_of_rows<Source>(tile, leaf);
    Value* values = scratch.values.get();
    if constexpr (kSearches) {
      run_on<kWide>(call_.isa, [=]<Isa kIsa>() { find_in_rows<Reduction>(leaves, parts); });
    } else if constexpr (Reduction::kOrdered) {
      const FinishArguments& arguments = call_.finish;
      run_on<kWide>(call_.isa, [=]<Isa kIsa>() {
        walk_rows_in_order<kIsa, Reduction, OrderedLane>(leaves, values, parts, arguments);
      });
    } else {
      auto* lanes = reinterpret_cast<typename General::Value*>(scratch.packed.get());
      run_on<kWide>(call_.isa, [=]<Isa kIsa>() {
        walk_rows_in_any_order<kIsa, Reduction, General>(leaves, lanes, values, parts);
      });
    }
  }

  void walk_leaf_of(const Reader& reader, int64_t leaf, const Scratch& scratch, Part* values) const {
    const int64_t start = leaf * order_.leaf_elements, length = order_.leaf_length(leaf, problem_.length);
    if (length == 0) {
      std::fill_n(values, reader.width, identity_of<Reduction, Part>());
    } else if constexpr (finds_position<Reduction>) {
      find_in_leaf(reader, start, length, scratch, values);
    } else if constexpr (Focused<Reduction>) {
      walk_with_focus(reader, start, length, scratch, values);
    } else if constexpr (Reduction::kOrdered) {
      walk_in_order(reader, start, length, kNoFocus, scratch, values);
    } else {
      walk_in_any_order(reader, start, length, scratch, values);
    }
  }

  // Walks the leaf until no output asks for another focus. One that does not ask finds the same value every time.
  void walk_with_focus(const Reader& reader, int64_t start, int64_t length, const Scratch& scratch, Part* parts) const {
    const int64_t width = reader.width, lanes = width == 1 ? 1 : segment_lanes_;
    Focus* focuses = scratch.focuses.get();
    Value* totals = scratch.totals.get();
    Input* samples = scratch.samples.get();
    for (int64_t i = 0; i < num_samples<Reduction>(); i++) {
      const Source* row = read(reader, start + std::min(i, length - 1), 1, scratch.rows.get());
      for (int64_t j = 0; j < width; j++) samples[i * width + j] = convert<Input>(row[j]);
    }
    for (int64_t j = 0; j < width; j++) {
      focuses[j] = first_focus<Reduction>(call_.finish, [&](int i) { return samples[i * width + j]; });
    }
    for (bool again = true; again;) {
      for (int64_t lane = 1; lane < lanes; lane++) std::copy_n(focuses, width, focuses + lane * width);
      if (width == 1) {
        walk_in_order(reader, start, length, SharedFocus<Focus>{focuses[0]}, scratch, totals);
      } else {
        walk_in_order(reader, start, length, EachFocus<Focus>{focuses}, scratch, totals);
      }
      again = false;
      for (int64_t j = 0; j < width; j++) again |= Reduction::refocus(focuses[j], totals[j], length, call_.finish);
    }
    for (int64_t j = 0; j < width; j++) parts[j] = make_part<Reduction>(totals[j], focuses[j], length, call_.finish);
  }

  template <class Focuses>
  void walk_in_order(const Reader& reader, int64_t start, int64_t length, const Focuses& focuses,
                     const Scratch& scratch, Value* values) const {
    const int64_t segments = order_.lanes / segment_lanes_, size = segment_values(reader.width);
    const bool pairs = is_tree() && segments > 1 && (!kMayUseIndex || even_places_);
    const int64_t visits = pairs ? segments / 2 : segments;
    const int bits = log2_of(visits);
    int64_t depth = 0;
    for (int64_t visit = 0; visit < visits; visit++) {
      int64_t segment = 0;
      for (int b = 0; b < bits; b++) segment |= (visit >> b & 1) << (bits - 1 - b);
      const int64_t first = segment * segment_lanes_;
      Value* lanes = scratch.values.get() + depth++ * size;
      if (pairs) {
        take_pair(lanes, reader, start + first, length - first, focuses, scratch);
      } else {
        const int64_t rounds = (length - first) / order_.lanes, left = length - first - rounds * order_.lanes;
        const bool whole = left >= segment_lanes_;
        take_all<OrderedLane>(lanes, reader, start + first, rounds + whole, whole ? 0 : left, focuses, scratch);
      }
      for (int64_t done = visit; done & 1; done >>= 1, depth--) {
        Value* low = scratch.values.get() + (depth - 2) * size;
        merge(low, low + size, size);
      }
    }
    fold(scratch.values.get(), segment_lanes_, reader.width);
    std::copy_n(scratch.values.get(), reader.width, values);
  }

  // Two segments of a tree, half the lanes apart, folded. `left`: elements from the first one on.
  template <class Focuses>
  void take_pair(Value* lanes, const Reader& reader, int64_t position, int64_t left, const Focuses& focuses,
                 const Scratch& scratch) const {
    const int64_t apart = order_.lanes / 2;
    const int64_t low = std::min(segment_lanes_, left), high = std::clamp<int64_t>(left - apart, 0, segment_lanes_);
    if (high < segment_lanes_) {
      take_all<OrderedLane>(lanes, reader, position, low == segment_lanes_, low == segment_lanes_ ? 0 : low, focuses,
                            scratch);
    }
    if (high > 0) {
      const Source* first = read(reader, position, high, scratch.rows.get());
      const Source* second = read(reader, position + apart, high, scratch.rows.get() + high * reader.width);
      const Indices indices = indices_of(position, high, reader.width);
      const int64_t step = apart * step_.place;
      run_on<kWide>(call_.isa,
                    [=]<Isa kIsa>() { take_pairs<OrderedLane>(lanes, first, second, focuses, indices, step); });
    }
  }

  void walk_in_any_order(const Reader& reader, int64_t start, int64_t length, const Scratch& scratch,
                         Part* values) const {
    using Packed = typename General::Value;
    static_assert(sizeof(Packed) <= 4 * sizeof(int64_t));
    const int64_t size = segment_values(reader.width), rounds = length / order_.lanes;
    const int64_t rest = length - rounds * order_.lanes;
    Value* wide = scratch.values.get();
    if constexpr (std::is_same_v<Packed, Value>) {
      take_all<General>(wide, reader, start, rounds, rest, kNoFocus, scratch);
    } else {
      Packed* lanes = reinterpret_cast<Packed*>(scratch.packed.get());
      for (int64_t r = 0; r < rounds;) {
        const int64_t chunk = std::min(rounds - r, General::kMaxRounds - 1);
        const bool last = r + chunk == rounds;
        take_all<General>(lanes, reader, start + r * order_.lanes, chunk, last ? rest : 0, kNoFocus, scratch);
        const bool first = r == 0;
        run_on<kWide>(call_.isa, [=]<Isa kIsa>() {
          for (int64_t i = 0; i < size; i++) {
            const Value value = General::widen(lanes[i]);
            wide[i] = first ? value : Reduction::merge(wide[i], value);
          }
        });
        r += chunk;
      }
    }
    fold(wide, segment_lanes_, reader.width);
    std::copy_n(wide, reader.width, values);
  }

  void find_in_leaf(const Reader& reader, int64_t start, int64_t length, const Scratch& scratch, Value* values) const {
    using Lane = KeyLane<Reduction, Source>;
    using Narrow = typename Lane::Key;
    using Key = decltype(Value::key);
    const int64_t width = reader.width, size = segment_values(width), lanes = order_.lanes;
    const int64_t rounds = length / lanes, rest = length - rounds * lanes;
    Key* keys = reinterpret_cast<Key*>(scratch.packed.get());
    Key* positions = keys + size;
    Narrow* narrow = reinterpret_cast<Narrow*>(positions + size);
    Narrow* met = narrow + size;
    for (int64_t r = 0; r < rounds;) {
      const int64_t chunk = std::min(rounds - r, Lane::kMaxRounds - 1);
      find_in_rounds<Lane>(narrow, met, reader, start + r * lanes, chunk, r + chunk == rounds ? rest : 0, scratch);
      const bool first = r == 0;
      run_on<kWide>(call_.isa, [=]<Isa kIsa>() {
        if (width == 1) {
          keep_keys(keys, positions, narrow, met, size, {r, lanes, 0, 1}, first);
        } else {
          for (int64_t lane = 0; lane < size / width; lane++) {
            const int64_t at = lane * width;
            keep_keys(keys + at, positions + at, narrow + at, met + at, width, {r, lanes, lane, 0}, first);
          }
        }
      });
      r += chunk;
    }
    run_on<kWide>(call_.isa, [=]<Isa kIsa>() { fold_keys(keys, positions, size / width, width); });
    for (int64_t j = 0; j < width; j++) {
      values[j] = {Lane::widen(static_cast<Narrow>(keys[j])), start + positions[j]};
    }
  }

  template <class Lane>
  void find_in_rounds(typename Lane::Key* keys, typename Lane::Key* met, const Reader& reader, int64_t position,
                      int64_t rounds, int64_t rest, const Scratch& scratch) const {
    const auto find = [&](int64_t first_round, int64_t num_rounds, int64_t count) {
      read_rounds(reader, position + first_round * order_.lanes, num_rounds, count, scratch,
                  [&](const Source* rows, int64_t row_step, int64_t done, int64_t piece) {
                    const int64_t size = count * reader.width, round = first_round + done;
                    run_on<kWide>(call_.isa, [=]<Isa kIsa>() {
                      take_key_rounds<kIsa, Lane>(keys, met, rows, row_step, piece, size, round);
                    });
                  });
    };
    find(0, rounds, segment_lanes_);
    if (rest > 0) find(rounds, 1, rest);
  }

  // ---- the result

  [[gnu::noinline]] void finish(const Tile& tile, Part* leaf_values) const {
    std::fill_n(leaf_values + order_.num_leaves * tile.width, (padded_leaves() - order_.num_leaves) * tile.width,
                identity_of<Reduction, Part>());
    fold_leaves(leaf_values, tile.width);
    [&]<int... kIndices>(std::integer_sequence<int, kIndices...>) {
      (store_results<kIndices>(tile, leaf_values), ...);
    }(std::make_integer_sequence<int, num_results<Reduction, Part>>());
  }

  // Output number kIndex of a tile, if it is asked for.
  template <int kIndex>
  void store_results(const Tile& tile, const Part* values) const {
    const Output& output = call_.outputs[kIndex];
    if (output.data == nullptr) return;
    using Result = decltype(gpureduce::finish<Reduction, kIndex>(*values, call_.finish));
    const auto result = [values, arguments = call_.finish](int64_t j) {
      return gpureduce::finish<Reduction, kIndex>(values[j], arguments);
    };
    // Most are not rounded, and where rows are short there are many.
    if (is_dtype<Result>(output.dtype)) {
      Result* to = static_cast<Result*>(output.data) + tile.place;
      for (int64_t j = 0; j < tile.width; j++) to[j * inner_.place] = to_element<Result>(result(j));
      return;
    }
    constexpr int64_t kBlock = Buffer<Result>::kBytesInside / sizeof(Result);
    const Buffer<Result> results(kBlock);
    for (int64_t done = 0; done < tile.width; done += kBlock) {
      const int64_t count = std::min(kBlock, tile.width - done);
      for (int64_t j = 0; j < count; j++) results.get()[j] = result(done + j);
      const int64_t place = tile.place + done * inner_.place;
      store(call_.isa, static_cast<std::byte*>(output.data) + place * size_of(output.dtype), output.dtype, inner_.place,
            results.get(), count);
    }
  }

  const Call& call_;
  const Problem& problem_;
  std::conditional_t<finds_position<Reduction>, AxisList, const AxisList&> reduced_;
  Order order_;
  Axis inner_{1, 0, 1}, step_{1, 0, 0};
  Layout layout_ = Layout::kRows;
  bool even_places_ = true;    // an element's place is a multiple of its position, or nobody asks for it
  bool plain_rows_ = false;    // kRows, the elements of a row being neighbours
  bool sums_rows_ = false;     // the same, and sums of so many lanes that a leaf's have a loop of their own
  bool sums_columns_ = false;  // kColumns, neighbours, and sums of so few rounds that four lanes are taken at once
  int64_t width_ = 1, segment_lanes_ = 1, tiles_per_row_ = 1, num_tiles_ = 1;
};

}  // namespace gpureduce::cpu
