// How a problem is run on a GPU: which kernel, and which thread takes what. Made on the host, without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/order.h"
#include "core/problem.h"

namespace gpureduce {

// Rows that a warp of the rows kernel loads side by side where a row is one round of loads.
inline constexpr int kRowsOfOneRound = 4;
// Lanes that a thread of the tiles kernel loads side by side: where a lane takes one element, and otherwise.
inline constexpr int kLanesOfOneRound = 8;
inline constexpr int kLanesOfManyRounds = 2;  // at least
// Reductions of up to this many elements have a kernel that shares nothing between threads.
inline constexpr int kThinLength = 4;
inline constexpr int kThinUnits = 4;  // of a thread
// Axes, kept and reduced each, that the vector form of the tiles kernel takes; and its general form.
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
  int value_bytes = 1;     // of a lane
  int tile_vector = 1;     // outputs that a thread of the tiles kernel takes at once
  bool ordered = true;     // whether the order of combination binds
  bool indexed = false;    // whether the result is a position
  bool reads_rows = true;  // false for elements converted as they are read: tiles, one at a time, serve every layout
};

enum class Family : uint8_t {
  kNothing,    // no output
  kRowsWarp,   // contiguous elements, up to 32 threads a row
  kRowsBlock,  // contiguous elements, a block for one leaf at a time
  kThin,       // a few elements each, any strides: a thread for a unit of neighbouring outputs
  kTiles,      // any strides: a block takes a tile of outputs x lanes
};

struct Plan {
  Family family = Family::kNothing;
  bool supported = true;  // false: more axes than the kernels take
  Order order;

  int threads = 0;        // of a block
  int64_t num_items = 0;  // blocks' worth of work; block b takes items b, b + num_blocks, ...
  int64_t num_blocks = 0;

  // Leaves of one output (or tile) over blocks: each block takes `leaves_per_split` in a row.
  int splits = 1;
  int leaves_per_split = 1;

  bool cluster = false;  // the blocks of an output are a cluster, so that no ticket is needed

  // Rows.
  int64_t row_stride = 0;
  int threads_per_row = 0;
  bool one_round = false;  // every lane takes one element: rows are loaded side by side instead of rounds

  // Tiles. A block has `units` x `lanes` threads; a unit is `vector` neighbouring outputs.
  int vector = 1;
  int units = 1;
  int lanes = 1;
  bool lanes_first = false;  // neighbouring threads are neighbouring lanes (and not neighbouring units)
  int lanes_per_thread = 1;
  int lane_splits = 1;  // lanes over blocks
  // Narrow columns: so many positions lie side by side that they fill whole vectors, and are read as one row of units.
  int rows_of_unit = 1;
  AxisList kept, reduced;      // the problem's, as the tiles see them
  bool one_at_a_time = false;  // converted elements, and positions that take a division each
  int64_t num_units = 0, num_tiles = 0;
  size_t shared_bytes = 0;

  // Blocks that share an output leave partial results and draw a ticket; the last one folds.
  int64_t num_counters = 0;
  size_t partial_bytes = 0;

  bool shares_outputs() const { return splits * lane_splits > 1; }
};

// `address` of the first element decides about alignment.
Plan make_plan(const Problem& problem, const KernelTraits& traits, const DeviceLimits& limits, uint64_t address);

}  // namespace gpureduce
