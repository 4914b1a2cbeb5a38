// How a problem is run on a GPU: which kernel, and which thread takes what. Made on the host, without a GPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "core/order.h"
#include "core/problem.h"

namespace gpureduce {

// Short rows: threads of a block; vectors of a row that a thread takes at most, and where the kernel is compiled for
// fewer; and vectors that a warp copies to shared memory at once, with room for some more where rows are shifted.
inline constexpr int kShortThreads = 128, kShortVectors = 8, kFewShortVectors = 2;
inline constexpr int kShortTileVectors = 256, kShiftedTileVectors = 328;
// Rows of a few elements, without gaps: as many as fill whole vectors are a thread's, one group or several.
inline constexpr int kTinyLength = 8;  // at most
struct TinyRows {
  int vectors, rows;  // of a group
  int groups;         // of a thread
};
constexpr TinyRows tiny_rows(int length, int slots) {
  constexpr int kLoads = 4;
  const int vectors = length / std::gcd(length, slots);
  return {vectors, vectors * slots / length, std::max(1, kLoads / vectors)};
}
// Rows of one leaf that a thread of the rows kernels has in flight; wide lanes leave registers for one.
constexpr int rows_at_once(bool wide_lane) {
  return wide_lane ? 1 : 2;
}
// Leaves of one output that a block of the rows kernels may keep in its shared memory.
constexpr int max_leaves_of_block(int leaf_bytes) {
  constexpr int kBytes = 10 * 1024;
  return std::min(static_cast<int>(kMaxLeaves), kBytes / leaf_bytes);
}
// Threads of its block. Eight warps: the four parts of a multiprocessor, with a quarter of its registers each, hold as
// many of two blocks each. Nine leave a quarter fewer registers, but take a tile of 32 vectors and the one that a
// shifted row adds, times eight lanes.
constexpr int columns_threads(bool nine_warps) {
  return nine_warps ? 288 : 256;
}
// Batches of vectors that a thread has on their way through shared memory, where its lanes of several words leave no
// registers for them, and these are small.
constexpr int columns_stages(bool wide_lane, int vector, int element_bytes, int rounds, bool nine_warps) {
  const int vector_bytes = vector * element_bytes;
  const bool streams = wide_lane && (vector_bytes == 4 || vector_bytes == 8) && rounds == 4 && !nine_warps;
  if (!streams) return 0;
  return vector < 4 ? 2 : 3;  // few outputs are those of many words
}
// Lanes that a thread of the columns kernel loads side by side, where a lane takes `rounds` elements at once: 1, 2
// or 4. More batches on their way do as well as two lanes side by side.
constexpr int lanes_at_once(int rounds, int stages) {
  return stages > 2 ? 1 : 8 / rounds;
}
// Room for `count` values of the columns kernel in shared memory: one of space after every `vector` of them.
constexpr int spread_size(int count, int vector) {
  return vector == 1 ? count : count + count / vector;
}
// Threads of a block of the kernels for tiny rows and for thin columns.
inline constexpr int kTinyThreads = 256, kThinThreads = 256;
// Rows that a thread of the thin kernel has in flight at most, and where the kernel is compiled for fewer that do.
inline constexpr int kThinLoads = 8;
constexpr int thin_rows(int64_t length, bool all_kernels, bool shifted) {
  if (!all_kernels || shifted || length > 4) return kThinLoads;
  return length <= 2 ? 2 : 4;
}
// Lanes that a thread of the tiles kernel loads side by side, at least.
inline constexpr int kLanesOfTiles = 2;
// Axes, kept and reduced each, that kernels which read vectors take; and the tiles kernel.
inline constexpr int kMaxVectorAxes = 4;
inline constexpr int kMaxAxes = 32;

struct DeviceLimits {
  int num_sms = 132;
  int64_t max_blocks = (int64_t{1} << 31) - 1;
  int max_cluster = 16;                  // blocks of a cluster; 1 before compute capability 9.0
  int64_t max_shared_bytes = 99 * 1024;  // of a block, the least of compute capability 8.0 and later
};

// Of a card of compute capability `compute_major`.x.
constexpr DeviceLimits make_device_limits(int num_sms, int compute_major, int64_t max_shared_bytes) {
  constexpr int kMajorWithClusters = 9, kMaxCluster = 16;
  return {.num_sms = num_sms,
          .max_cluster = compute_major >= kMajorWithClusters ? kMaxCluster : 1,
          .max_shared_bytes = max_shared_bytes};
}

// What the planner must know of a reduction over one element type.
struct KernelTraits {
  int value_bytes = 1;        // of a lane
  int part_bytes = 1;         // of a leaf
  int leaf_bytes = 1;         // of a leaf in the shared memory of the rows kernels
  int focus_bytes = 0;        // 0: a leaf is walked once, without a focus (reductions/reduction.h)
  int tile_vector = 1;        // outputs that a thread of the columns kernel takes at once
  int most_lane_rows = 0;     // columns: that a lane may take, where the order is free; 0: as many as there are
  bool ordered = true;        // whether the order of combination binds
  bool wide_lane = false;     // whether a lane holds more than one word
  bool all_kernels = true;    // false: only the kernels that no case can do without
  bool pairs_leaves = true;   // whether there is a kernel for both leaves of a row at once
  bool clusters_rows = true;  // whether there is one for blocks of a row that are a cluster
  bool reads_rows = true;     // false for elements converted as they are read: tiles, one at a time, serve every layout
};

enum class Family : uint8_t {
  kNothing,     // no output
  kTinyRows,    // contiguous elements without gaps, several rows to a vector
  kShortRows,   // contiguous elements, whole aligned vectors, a tree
  kStagedRows,  // contiguous elements, few, rows side by side at any alignment
  kRowsWarp,    // contiguous elements, up to 32 threads a row
  kRowsLeaf,    // contiguous elements, a block for a row of one leaf
  kRowsBlock,   // contiguous elements, a block for one leaf at a time
  kSegments,    // the same for rows that are chains of contiguous segments
  kThin,        // few elements each of many neighbouring outputs: a thread for a vector of outputs
  kColumns,     // neighbouring outputs: a block takes a tile of vectors of outputs x lanes
  kTiles,       // any strides: a block takes a tile of outputs x lanes, element by element
};

// Where the parts of a block's shared memory start, in bytes.
struct ColumnsShared {
  int stack = 0, parts = 0, leaf_stack = 0, focus = 0, stream = 0, gathered = 0;
};
struct TilesShared {
  int stack = 0, parts = 0, focus = 0;
};

struct Plan {
  Family family = Family::kNothing;
  bool supported = true;  // false: more axes than the kernels take
  Order order;            // as the kernel walks it: where the order does not bind, its own

  int threads = 0;        // of a block
  int64_t num_items = 0;  // blocks' worth of work; block b takes items b, b + num_blocks, ...
  int64_t num_blocks = 0;
  size_t shared_bytes = 0;

  // Leaves of one output (or tile) over blocks. Rows and tiles: each block takes `leaves_per_split` in a row. Columns:
  // block s takes leaves s, s + splits, ..., and `splits` is a power of two.
  int splits = 1;
  int leaves_per_split = 1;
  int lane_splits = 1;  // lanes of one leaf over blocks
  int cluster = 0;      // so many blocks share an output as a cluster, so that no ticket is needed

  // Rows.
  int64_t row_stride = 0;  // also of the columns kernel: from one position to the next
  int threads_per_row = 0;
  int vectors_per_thread = 1;    // short rows, and rows of a warp: at most
  int rows_per_tile = 0;         // short and staged rows: of a warp
  int lanes_per_thread = 1;      // thin, columns and tiles: lanes that a thread walks
  int64_t segment_elements = 0;  // segments
  bool aligned = false;          // every vector that is read starts at a multiple of its size
  bool one_wave = false;         // blocks all run at once, and leave the next kernel few places

  // Columns and tiles. A block has `units` x `lanes` threads; a unit is `vector` neighbouring outputs.
  int vector = 1;
  int units = 1;
  int lanes = 1;
  int rounds_at_once = 4;      // columns: 1, 2 or 4 elements of a lane are loaded side by side
  bool lanes_first = false;    // tiles: neighbouring threads are neighbouring lanes (and not neighbouring units)
  bool one_at_a_time = false;  // tiles: converted elements, and positions that take a division each
  bool is_small = false;       // columns: fewer blocks than multiprocessors
  bool nine_warps = false;     // columns: a block may have so many
  int tile_outputs = 1;        // columns: of one position
  // Narrow columns: so many positions lie side by side that they fill whole vectors, and are read as one.
  int rows_of_unit = 1;
  int64_t tiles_per_row = 0, num_tiles = 0;
  int fold_groups = 1, entries_of_tile = 1;  // columns: partial results of a tile come together in groups first
  ColumnsShared columns_shared;
  TilesShared tiles_shared;

  // Blocks that share an output leave partial results and draw a ticket; the last one folds.
  int64_t num_counters = 0;
  size_t partial_bytes = 0;

  // Blocks that ask for what they read first while the kernel in front still runs: those that may be there by then.
  int64_t ahead_blocks = 0;

  bool shares_outputs() const { return splits * lane_splits > 1; }
};

// `address` of the first element decides about alignment.
Plan make_plan(const Problem& problem, const KernelTraits& traits, const DeviceLimits& limits, uint64_t address);

}  // namespace gpureduce
