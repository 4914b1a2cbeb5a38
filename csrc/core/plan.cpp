#include "core/plan.h"

#include <algorithm>

#include "core/policy.h"

namespace gpureduce {
namespace {

constexpr int kVectorBytes = 16, kWarp = 32;

int64_t floor_power_of_two(int64_t x) {
  return x <= 1 ? 1 : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(x)));
}

bool is_multiple(int64_t elements, int64_t element_bytes, int64_t bytes) {
  return elements * element_bytes % bytes == 0;
}

// A region of shared memory after `used` bytes.
int place_after(int64_t& used, int64_t bytes) {
  const int64_t start = used;
  used += ceil_div(bytes, kVectorBytes) * kVectorBytes;
  return static_cast<int>(start);
}

// ---- rows

bool is_rows(const Problem& problem) {
  return problem.reduced.count == 1 && problem.reduced[0].stride == 1 && problem.reduced[0].place == 1 &&
         problem.kept.count <= 1 && (problem.kept.count == 0 || problem.kept[0].place == 1);
}

// Chains of segments long enough that few vectors pass from one to the next, in the order of their places.
bool is_segments(const Problem& problem) {
  const AxisList &kept = problem.kept, &reduced = problem.reduced;
  if (reduced.count < 1 || reduced.count > kMaxVectorAxes || kept.count > kMaxVectorAxes) return false;
  if (reduced.innermost().stride != 1) return false;
  int64_t place = 1;
  for (int i = reduced.count - 1; i >= 0; i--) {
    if (reduced[i].place != place) return false;
    place *= reduced[i].size;
  }
  return reduced.innermost().size * problem.element_bytes >= policy::kMinSegmentBytes &&
         problem.length * problem.element_bytes >= policy::kMinChainBytes;
}

int warps_per_block(int64_t warps, const DeviceLimits& limits) {
  return static_cast<int>(std::clamp<int64_t>(floor_power_of_two(warps / limits.num_sms), 1, policy::kThreads / kWarp));
}

// Whether what lies between the first row and the last is hardly more than their elements.
bool lie_dense(const Problem& problem, const Plan& plan) {
  return plan.row_stride * 4 <= problem.length * 5;
}

// Tiles of rows, at most `most_rounds` times as many as a warp takes at once, over warps and blocks.
void cut_short_rows(int64_t rows, int64_t most_rounds, const DeviceLimits& limits, Plan& plan) {
  const int64_t rows_at_once = kWarp / plan.threads_per_row, warps_wanted = policy::kShortWarpsPerSm * limits.num_sms;
  const int64_t rounds =
      std::clamp<int64_t>(rows / (rows_at_once * warps_wanted), 1, std::max<int64_t>(1, most_rounds));
  plan.rows_per_tile = static_cast<int>(rounds * rows_at_once);
  const int64_t tiles = ceil_div(rows, plan.rows_per_tile);
  const int64_t warps = std::clamp<int64_t>(floor_power_of_two(tiles / limits.num_sms), 1, kShortThreads / kWarp);
  plan.threads = static_cast<int>(warps) * kWarp;
  plan.num_items = ceil_div(tiles, warps);
}

// Rows of whole, aligned vectors. As many of them a thread as it can take, fewer where that leaves multiprocessors
// without warps; the threads of a row have as many each. False: another kernel serves them better.
bool plan_short_rows(const Problem& problem, const DeviceLimits& limits, Plan& plan) {
  const int64_t rows = problem.num_outputs, vectors = problem.length * problem.element_bytes / kVectorBytes;
  const int64_t most_threads = vectors & -vectors;
  int64_t threads = 1;
  while (threads < most_threads &&
         (vectors / threads > kShortVectors || rows * threads < policy::kMinShortThreadsPerSm * limits.num_sms)) {
    threads *= 2;
  }
  if (vectors / threads > kShortVectors) return false;
  plan.family = Family::kShortRows;
  plan.threads_per_row = static_cast<int>(threads);
  plan.vectors_per_thread = static_cast<int>(vectors / threads);
  cut_short_rows(rows, kShortTileVectors / (kWarp / threads * vectors), limits, plan);
  return true;
}

// Rows of any alignment that lie side by side, or nearly. False: another kernel serves them better.
bool plan_staged_rows(const Problem& problem, const KernelTraits& traits, const DeviceLimits& limits, Plan& plan) {
  const int64_t vector = kVectorBytes / problem.element_bytes, rows = problem.num_outputs;
  if (rows > 1 && (plan.row_stride < problem.length || !lie_dense(problem, plan))) return false;
  const int64_t vectors = ceil_div(problem.length, vector);
  const int64_t lanes = traits.ordered ? std::max<int64_t>(1, plan.order.lanes / vector) : next_power_of_two(vectors);
  const bool has_rounds = vectors > lanes;
  if (has_rounds && !traits.all_kernels) return false;
  const int64_t most = has_rounds ? kFewShortVectors : kShortVectors, taken = std::min(vectors, lanes);
  const bool one_by_one = is_multiple(plan.row_stride, problem.element_bytes, kVectorBytes);
  const int64_t row_bytes = one_by_one ? ((vectors + 1) | 1) * kVectorBytes : plan.row_stride * problem.element_bytes;
  const int64_t most_bytes = (kShiftedTileVectors - 3) * kVectorBytes;  // shifted, and read a little beyond
  int64_t threads = 1;
  while (threads <= kWarp && (ceil_div(taken, threads) > most || kWarp / threads * row_bytes > most_bytes ||
                              (threads < std::min<int64_t>(kWarp, lanes) &&
                               rows * threads < policy::kMinShortThreadsPerSm * limits.num_sms))) {
    threads *= 2;
  }
  if (threads > std::min<int64_t>(kWarp, lanes)) return false;
  plan.family = Family::kStagedRows;
  plan.threads_per_row = static_cast<int>(threads);
  plan.vectors_per_thread = static_cast<int>(ceil_div(taken, threads));
  cut_short_rows(rows, kShortTileVectors * kVectorBytes / (kWarp / threads * row_bytes), limits, plan);
  return true;
}

bool plan_tiny_rows(const Problem& problem, const KernelTraits& traits, bool starts_aligned, Plan& plan) {
  const int64_t vector = kVectorBytes / problem.element_bytes, rows = problem.num_outputs;
  const TinyRows tiny = tiny_rows(static_cast<int>(problem.length), static_cast<int>(vector));
  if (!traits.all_kernels || traits.focus_bytes > 0 || plan.row_stride != problem.length || problem.length == 1 ||
      problem.length >= vector || problem.length > kTinyLength || rows < tiny.rows || !starts_aligned) {
    return false;
  }
  plan.family = Family::kTinyRows;
  plan.threads = kTinyThreads;
  plan.num_items = ceil_div(rows / tiny.rows, int64_t{tiny.groups} * kTinyThreads);
  return true;
}

// Where the order is free, long rows are cut into as few leaves as leave every multiprocessor enough to do: each is
// folded once.
void cut_free_rows(const Problem& problem, const DeviceLimits& limits, Plan& plan) {
  constexpr int64_t kMaxLeafElements = int64_t{1} << 28;  // the kernel counts vectors in 32 bits
  const int64_t blocks = int64_t{policy::kFreeBlocksPerSm} * limits.num_sms;
  const int64_t most = std::min(kMaxLeaves, plan.order.num_leaves);
  const int64_t least = std::min(most, ceil_div(problem.length, kMaxLeafElements));
  const int64_t leaves = std::clamp(blocks / problem.num_outputs, least, most);
  const int64_t step = policy::kFreeLeafStep / problem.element_bytes;
  // The last leaf has between a half and one and a half, as in core/order.h.
  plan.order.leaf_elements = ceil_div(ceil_div(problem.length, leaves), step) * step;
  const int64_t half = plan.order.leaf_elements / 2;
  plan.order.num_leaves = std::max<int64_t>(1, (problem.length + half) / plan.order.leaf_elements);
}

void plan_leaves(const Problem& problem, const KernelTraits& traits, const DeviceLimits& limits, Plan& plan) {
  const int64_t vector = kVectorBytes / problem.element_bytes;
  const int64_t rows = problem.num_outputs, leaves = plan.order.num_leaves;
  plan.threads = std::max(kWarp, plan.threads_per_row);
  const int64_t leaf_vectors = std::min(plan.order.leaf_elements, problem.length) / vector;
  if (!traits.ordered && leaf_vectors >= policy::kThreads * policy::kVectorsPerFreeThread)
    plan.threads = policy::kThreads;
  if (plan.family != Family::kRowsLeaf && !traits.ordered) {
    // Cut for the sake of so many blocks, or because a leaf would be too long.
    plan.splits = rows < int64_t{policy::kFreeBlocksPerSm} * limits.num_sms ? static_cast<int>(leaves) : 1;
  } else if (plan.family != Family::kRowsLeaf && rows < policy::kWholeRowsPerSm * limits.num_sms) {
    const int64_t share = rows * leaves / (policy::kLeafBlocksPerSm * limits.num_sms);
    plan.splits = static_cast<int>(ceil_div(leaves, std::clamp<int64_t>(share, 1, leaves)));
  }
  plan.splits = std::max(plan.splits, static_cast<int>(ceil_div(leaves, max_leaves_of_block(traits.leaf_bytes))));
  plan.leaves_per_split = static_cast<int>(ceil_div(leaves, plan.splits));
  plan.splits = static_cast<int>(ceil_div(leaves, plan.leaves_per_split));
  plan.num_items = rows * plan.splits;
  plan.one_wave = plan.num_items > policy::kFewBlocksPerSm * limits.num_sms &&
                  plan.num_items <= policy::kMostBlocksPerSm * limits.num_sms;
  if (plan.family == Family::kRowsBlock && traits.clusters_rows && plan.splits > 1 &&
      plan.splits <= limits.max_cluster && plan.leaves_per_split == 1 && plan.num_items <= limits.num_sms) {
    plan.cluster = plan.splits;
  } else if (plan.splits > 1) {
    plan.num_counters = rows;
    plan.partial_bytes = static_cast<size_t>(rows * leaves * traits.part_bytes);
  }
}

void plan_rows(const Problem& problem, const KernelTraits& traits, const DeviceLimits& limits, uint64_t address,
               Plan& plan) {
  const int64_t vector = kVectorBytes / problem.element_bytes, rows = problem.num_outputs;
  plan.row_stride = problem.kept.count == 0 ? 0 : problem.kept[0].stride;
  plan.aligned = address % kVectorBytes == 0 && is_multiple(plan.row_stride, problem.element_bytes, kVectorBytes) &&
                 is_multiple(problem.length, problem.element_bytes, kVectorBytes);
  const bool is_tree = problem.length <= kWarp * vector;
  if (plan.aligned && is_tree && plan_short_rows(problem, limits, plan)) return;
  if ((is_tree || !plan.aligned) && problem.length * problem.element_bytes <= policy::kMaxShortRowBytes) {
    if (plan_tiny_rows(problem, traits, address % kVectorBytes == 0, plan)) return;
    if (plan_staged_rows(problem, traits, limits, plan)) return;
  }
  plan.threads_per_row = static_cast<int>(std::max<int64_t>(1, plan.order.lanes / vector));
  if (plan.threads_per_row <= kWarp && plan.order.num_leaves == 1) {
    plan.family = Family::kRowsWarp;
    const int64_t vectors = ceil_div(problem.length, vector) + (plan.aligned ? 0 : 1);
    plan.vectors_per_thread = static_cast<int>(ceil_div(vectors, plan.threads_per_row));
    const int64_t warps = ceil_div(rows, kWarp / plan.threads_per_row * rows_at_once(traits.wide_lane));
    plan.threads = warps_per_block(warps, limits) * kWarp;
    plan.num_items = ceil_div(warps, plan.threads / kWarp);
    return;
  }
  const bool cuts = !traits.ordered && problem.length * problem.element_bytes > policy::kMaxLeafRowBytes;
  if (cuts) cut_free_rows(problem, limits, plan);
  // Leaves that a block takes at once: those of two rows, or both of one where there is a kernel for that. Without one
  // for aligned rows a cluster is quicker, of rows that are few enough (one row of 4096 float64: 2.3 us, 2.0 as a
  // cluster).
  const int64_t at_once = rows_at_once(traits.wide_lane), leaves = plan.order.num_leaves;
  const bool clusters =
      !traits.all_kernels && traits.clusters_rows && limits.max_cluster >= at_once && rows * leaves <= limits.num_sms;
  const int64_t most_leaves = traits.pairs_leaves && !clusters ? at_once : 1;
  plan.family = leaves <= most_leaves && !cuts ? Family::kRowsLeaf : Family::kRowsBlock;
  plan_leaves(problem, traits, limits, plan);
  if (plan.family == Family::kRowsLeaf) plan.num_items = ceil_div(rows * leaves, at_once);
}

// False: the tiles kernel has to do.
bool plan_segments(const Problem& problem, const KernelTraits& traits, const DeviceLimits& limits, uint64_t address,
                   Plan& plan) {
  plan.family = Family::kSegments;
  plan.segment_elements = problem.reduced.innermost().size;
  plan.threads_per_row =
      static_cast<int>(std::max<int64_t>(1, plan.order.lanes * problem.element_bytes / kVectorBytes));
  const auto aligned = [&](int64_t elements) { return is_multiple(elements, problem.element_bytes, kVectorBytes); };
  plan.aligned = address % kVectorBytes == 0 && aligned(plan.segment_elements);
  for (int i = 0; i < problem.kept.count; i++) plan.aligned = plan.aligned && aligned(problem.kept[i].stride);
  for (int i = 0; i + 1 < problem.reduced.count; i++) plan.aligned = plan.aligned && aligned(problem.reduced[i].stride);
  if (!plan.aligned && !traits.all_kernels) return false;
  if (!traits.ordered) cut_free_rows(problem, limits, plan);
  plan_leaves(problem, traits, limits, plan);
  return true;
}

// ---- columns

bool is_columns(const Problem& problem) {
  return problem.kept.count >= 1 && problem.kept.count <= kMaxVectorAxes + 1 && problem.reduced.count <= 1 &&
         problem.kept.innermost().stride == 1;
}

// As many narrow rows as fill whole vectors become one, where rows leave no gaps between them.
void join_narrow_rows(const Problem& problem, bool starts_aligned, Plan& plan) {
  const Axis& columns = problem.kept.innermost();
  if (problem.kept.count != 1 || problem.reduced.count != 1 || problem.reduced[0].stride != columns.size) return;
  if (columns.place != 1 || problem.reduced[0].place != 1) return;
  const int64_t joined = plan.vector / std::gcd(columns.size, int64_t{plan.vector});
  if (columns.size * joined > policy::kMaxJoinedVectors * plan.vector || plan.order.lanes < joined) return;
  // A shifted vector may pass the end of its row, and the last row but one must not pass the end of memory with it.
  const int64_t rest = problem.length % joined * columns.size;
  if (!starts_aligned && rest > 0 && rest < plan.vector - 1) return;
  plan.rows_of_unit = static_cast<int>(joined);
}

// The block's shared memory, and the partial results that blocks leave for the last one.
void place_columns(const KernelTraits& traits, const DeviceLimits& limits, int element_bytes, Plan& plan) {
  const int64_t padded_leaves = next_power_of_two(plan.order.num_leaves);
  const int64_t outputs = plan.tile_outputs / plan.rows_of_unit;
  const int64_t sharers = std::min<int64_t>(plan.splits, plan.order.num_leaves) * plan.lane_splits;
  const int64_t late_rows = plan.lane_splits > 1 ? plan.rows_of_unit : 1;
  const int64_t entries = plan.lane_splits * late_rows * plan.splits;
  plan.leaves_per_split = static_cast<int>(padded_leaves / plan.splits);
  plan.num_items = plan.num_tiles * sharers;
  plan.is_small = plan.num_items <= limits.num_sms;
  const bool is_cluster = sharers > 1 && sharers <= limits.max_cluster && plan.num_items <= limits.num_sms;
  plan.cluster = is_cluster ? static_cast<int>(sharers) : 0;

  const int stages = columns_stages(traits.wide_lane, plan.vector, element_bytes, plan.rounds_at_once, plan.nine_warps);
  const int batch = traits.ordered ? lanes_at_once(plan.rounds_at_once, stages) : 1;
  const int64_t levels = std::max(0, log2_of(plan.lanes_per_thread) - log2_of(batch));
  constexpr int kEntriesBatch = 8;
  const int64_t entry_levels = std::max(0, log2_of(entries) - log2_of(kEntriesBatch));
  const int64_t gathered = plan.cluster  ? entries * outputs
                           : sharers > 1 ? std::max<int64_t>(plan.threads, outputs)
                                         : 0;
  int64_t used = 0;
  const int64_t values = int64_t{spread_size(plan.lanes * plan.tile_outputs, plan.vector)} * traits.value_bytes;
  // The last block folds what the others left where its own values were.
  place_after(used, plan.cluster ? values : std::max(values, gathered * traits.part_bytes));
  plan.columns_shared.stack =
      place_after(used, std::max(levels * plan.threads * plan.vector * traits.value_bytes,
                                 plan.cluster ? 0 : entry_levels * plan.threads * traits.part_bytes));
  plan.columns_shared.parts = place_after(used, outputs * late_rows * traits.part_bytes);
  plan.columns_shared.leaf_stack = place_after(used, log2_of(plan.leaves_per_split) * outputs * traits.part_bytes);
  plan.columns_shared.focus = place_after(used, outputs * traits.focus_bytes);
  plan.columns_shared.stream =
      place_after(used, int64_t{stages} * batch * plan.rounds_at_once * plan.threads * plan.vector * element_bytes);
  plan.columns_shared.gathered = plan.cluster ? place_after(used, gathered * traits.part_bytes) : 0;
  plan.shared_bytes = static_cast<size_t>(used);
  plan.fold_groups = 1;
  plan.num_counters = 0;
  plan.partial_bytes = 0;
  if (sharers == 1 || plan.cluster) return;
  // What one thread of the last block would fold. Loads that wait for one another are what takes time: of two levels
  // of blocks each has the root of as many.
  const int64_t serial = entries / std::clamp<int64_t>(floor_power_of_two(plan.threads / outputs), 1, entries);
  if (serial > policy::kMostSerialEntries) {
    const int64_t root = int64_t{1} << (log2_of(serial) / 2);
    const int64_t most = std::max<int64_t>(1, policy::kMostCounters / plan.num_tiles - 1);
    plan.fold_groups = static_cast<int>(std::min({root, floor_power_of_two(most), int64_t{plan.splits}}));
  }
  const int64_t groups = plan.fold_groups > 1 ? plan.fold_groups : 0;
  plan.entries_of_tile = static_cast<int>(entries + groups);
  plan.num_counters = plan.num_tiles * (1 + groups);
  plan.partial_bytes = static_cast<size_t>(plan.num_tiles * plan.entries_of_tile * outputs * traits.part_bytes);
}

// Sets a tile of `units` vectors, and all that follows from it; `blocks` in all are wanted.
void set_columns_tile(const Problem& problem, const KernelTraits& traits, const DeviceLimits& limits, int64_t units,
                      int64_t blocks, Plan& plan) {
  const int64_t width = problem.kept.innermost().size * plan.rows_of_unit;
  const int64_t matrices = problem.num_outputs / problem.kept.innermost().size;
  const int shift = plan.aligned ? 0 : 1;  // a shifted row ends in one vector more
  plan.units = static_cast<int>(units);
  plan.tile_outputs = plan.rows_of_unit > 1 ? static_cast<int>(width) : (plan.units - shift) * plan.vector;
  plan.tiles_per_row = ceil_div(width, plan.tile_outputs);
  plan.num_tiles = matrices * plan.tiles_per_row;
  const int64_t most_lanes = floor_power_of_two(columns_threads(plan.nine_warps) / units);
  const int64_t rows = ceil_div(problem.length, plan.rows_of_unit);
  if (traits.ordered) {
    const int64_t lanes = plan.order.lanes;
    plan.lanes = static_cast<int>(std::min(lanes, most_lanes));
    const int64_t spare = blocks / std::max<int64_t>(1, plan.num_tiles);
    plan.splits =
        static_cast<int>(std::clamp<int64_t>(floor_power_of_two(spare), 1, next_power_of_two(plan.order.num_leaves)));
    plan.lane_splits = 1;
    if (plan.splits >= plan.order.num_leaves && traits.focus_bytes == 0) {
      const int64_t most = std::min(lanes / plan.lanes, policy::kMaxLaneSplits);
      plan.lane_splits =
          static_cast<int>(std::clamp<int64_t>(floor_power_of_two(spare / plan.order.num_leaves), 1, most));
    }
    plan.lanes_per_thread = static_cast<int>(lanes / plan.lanes / plan.lane_splits);
  } else {
    // Any order will do: a thread takes rows one after the other, and blocks share them as evenly as they can.
    plan.lanes = static_cast<int>(std::min(next_power_of_two(rows), most_lanes));
    // The kernel counts the rows of a leaf in 32 bits, with room for a few rounds more.
    constexpr int64_t kMaxLeafRows = int64_t{1} << 28;
    const int64_t most_rows = traits.most_lane_rows > 0 ? int64_t{traits.most_lane_rows} * plan.lanes : kMaxLeafRows;
    const int64_t least = std::clamp<int64_t>(ceil_div(rows, most_rows), 1, kMaxLeaves);
    const int64_t most = std::clamp<int64_t>(ceil_div(rows, plan.lanes * policy::kMinFreeRounds), least, kMaxLeaves);
    const int64_t leaves = std::clamp<int64_t>(blocks / std::max<int64_t>(1, plan.num_tiles), least, most);
    plan.order.lanes = plan.lanes;
    plan.order.leaf_elements = ceil_div(ceil_div(rows, leaves), plan.vector) * plan.vector;
    plan.order.num_leaves = std::max<int64_t>(1, ceil_div(rows, plan.order.leaf_elements));
    plan.splits = static_cast<int>(next_power_of_two(plan.order.num_leaves));
    plan.lanes_per_thread = plan.lane_splits = 1;
  }
  plan.threads = static_cast<int>(ceil_div(plan.units * plan.lanes, kWarp)) * kWarp;
  place_columns(traits, limits, problem.element_bytes, plan);
}

// Whether a thread's slots are the same outputs in all rows it takes.
bool shifts_agree(const Problem& problem, const Plan& plan) {
  if (plan.aligned || plan.rows_of_unit > 1) return true;
  const int64_t stride = plan.row_stride, vector = plan.vector;
  const int64_t thread_step = int64_t{plan.lanes} * plan.lane_splits;
  return (plan.lanes_per_thread == 1 || thread_step * stride % vector == 0) &&
         (problem.length <= plan.order.lanes || plan.order.lanes * stride % vector == 0) &&
         (plan.order.num_leaves == 1 || plan.order.leaf_elements * stride % vector == 0);
}

// False: another kernel serves it better, or has to.
bool plan_thin(const Problem& problem, const KernelTraits& traits, const DeviceLimits& limits, Plan& plan) {
  const Axis& inner = problem.kept.innermost();
  if (inner.place != 1) return false;
  const bool one_tree = plan.order.num_leaves == 1 && problem.length <= plan.order.lanes;
  const bool few_rows = traits.most_lane_rows == 0 || problem.length <= traits.most_lane_rows;
  if (traits.ordered ? !one_tree : !few_rows || problem.length > policy::kMaxThinLength) return false;
  const bool shifted = !plan.aligned || inner.size % plan.vector != 0;
  if (shifted &&
      problem.length > (traits.ordered ? policy::kMaxShiftedThinLength : policy::kMaxFreeShiftedThinLength)) {
    return false;
  }
  if (shifted && (!traits.all_kernels || plan.vector * problem.element_bytes != kVectorBytes)) return false;
  if (shifted && problem.length > 1 && plan.row_stride < 2 * plan.vector) return false;  // a row and what lies behind
  plan.tiles_per_row = ceil_div(inner.size, plan.vector);
  plan.num_tiles = problem.num_outputs / inner.size * plan.tiles_per_row;
  const bool is_short = !shifted && problem.length <= policy::kThinAlways;
  const int64_t least = shifted ? policy::kMinShiftedThinThreadsPerSm : policy::kMinThinThreadsPerSm;
  if (!is_short && plan.num_tiles < least * limits.num_sms) return false;
  // Blocks that take twice the registers are halved, so that they still come in many waves and end together.
  const int threads = shifted ? kThinThreads / 2 : kThinThreads;
  const int rows = thin_rows(problem.length, traits.all_kernels, shifted);
  const int64_t lanes = traits.ordered ? std::max<int64_t>(rows, plan.order.lanes) : rows;
  const int64_t stack_bytes = int64_t{log2_of(lanes / rows)} * threads * plan.vector * traits.value_bytes;
  if (stack_bytes > policy::kMaxThinSharedBytes) return false;
  plan.family = Family::kThin;
  plan.aligned = !shifted;
  plan.threads = threads;
  plan.num_items = ceil_div(plan.num_tiles, threads);
  plan.lanes_per_thread = static_cast<int>(lanes);
  plan.shared_bytes = static_cast<size_t>(stack_bytes);
  return true;
}

// False: the tiles kernel has to do.
bool plan_columns(const Problem& problem, const KernelTraits& traits, const DeviceLimits& limits, uint64_t address,
                  Plan& plan) {
  const Axis& inner = problem.kept.innermost();
  const int64_t bytes = problem.element_bytes;
  plan.vector = traits.tile_vector;
  const int64_t vector_bytes = plan.vector * bytes;
  plan.row_stride = problem.reduced.count == 0 ? 0 : problem.reduced[0].stride;
  plan.aligned = address % vector_bytes == 0 && is_multiple(plan.row_stride, bytes, vector_bytes);
  for (int i = 0; i + 1 < problem.kept.count; i++) {
    plan.aligned = plan.aligned && is_multiple(problem.kept[i].stride, bytes, vector_bytes);
  }
  if (plan_thin(problem, traits, limits, plan)) return true;
  if (problem.length <= 1) return false;
  plan.family = Family::kColumns;
  if (inner.size % plan.vector != 0) join_narrow_rows(problem, address % vector_bytes == 0, plan);
  // A vector may pass the end of its row, which must not be the end of memory but for the last row.
  if (plan.rows_of_unit == 1 && plan.row_stride < plan.vector) return false;
  if (plan.rows_of_unit > 1) {
    plan.aligned = address % vector_bytes == 0;
    plan.row_stride *= plan.rows_of_unit;
    plan.order.lanes /= plan.rows_of_unit;
    plan.order.leaf_elements /= plan.rows_of_unit;
  }
  const int64_t rounds = ceil_div(ceil_div(problem.length, plan.rows_of_unit), plan.order.lanes);
  plan.rounds_at_once = traits.all_kernels && rounds <= 2 ? static_cast<int>(rounds) : 4;
  plan.nine_warps = !plan.aligned && traits.all_kernels && traits.ordered && plan.rounds_at_once == 4;

  const int64_t width = inner.size * plan.rows_of_unit;
  const int64_t row_vectors = ceil_div(width, plan.vector) + (plan.aligned ? 0 : 1);
  const int64_t all_bytes = problem.num_outputs * problem.length * bytes;
  const int64_t blocks =
      std::clamp<int64_t>(all_bytes / policy::kMinBlockBytes, 1, int64_t{policy::kColumnBlocksPerSm} * limits.num_sms);
  const Order order = plan.order;  // the unordered walk chooses its own for every tile
  const auto set_tile = [&](int64_t units) {
    plan.order = order;
    set_columns_tile(problem, traits, limits, std::min(units, row_vectors), blocks, plan);
  };
  if (plan.rows_of_unit > 1) {
    set_tile(row_vectors);
  } else {
    // The widest tile that leaves every multiprocessor enough to do; narrow ones only where the input is cached, or
    // where blocks cannot share a leaf's lanes, so that there would be too few of them.
    const int64_t narrowest = all_bytes <= policy::kCachedBytes || traits.focus_bytes > 0
                                  ? policy::kMinTileVectors
                                  : policy::kMinStreamedTileVectors;
    // A shifted tile has a vector that holds no outputs of its own, so it is wide, and has lanes enough that all rows
    // of a thread are shifted alike.
    int64_t units = plan.aligned ? policy::kMaxTileVectors : columns_threads(plan.nine_warps) / plan.vector;
    for (;; units /= 2) {
      set_tile(units);
      const int64_t leaves = traits.ordered ? order.num_leaves : 1;
      const bool fits = static_cast<int64_t>(plan.shared_bytes) <= policy::kMaxTileSharedBytes;
      if (units / 2 < narrowest || (fits && plan.num_tiles * leaves * 2 > blocks)) break;
    }
    // Fewer outputs a tile where that gives no more tiles: a last tile that is as full as the others.
    if (!plan.aligned && plan.tiles_per_row > 1)
      set_tile(ceil_div(ceil_div(width, plan.tiles_per_row), plan.vector) + 1);
  }
  // More rows than packed lanes can take are a matter of views that repeat memory.
  if (traits.most_lane_rows > 0 && plan.order.leaf_elements > int64_t{traits.most_lane_rows} * plan.lanes) return false;
  return shifts_agree(problem, plan) && static_cast<int64_t>(plan.shared_bytes) <= policy::kMaxTileSharedBytes;
}

// ---- any strides

// What follows from a tile's units and lanes: the split over blocks and the shared memory.
void split_tiles(const KernelTraits& traits, int64_t leaves, int64_t wanted_blocks, Plan& plan) {
  const int64_t lanes = plan.order.lanes;
  plan.threads = static_cast<int>(ceil_div(plan.units * plan.lanes, kWarp)) * kWarp;
  plan.lane_splits = 1;
  plan.leaves_per_split = static_cast<int>(leaves);
  if (plan.num_tiles < wanted_blocks) {
    const int64_t spare = std::min(wanted_blocks / (plan.num_tiles * leaves), policy::kMaxLaneSplits);
    if (traits.focus_bytes == 0) {
      plan.lane_splits = static_cast<int>(std::min(floor_power_of_two(spare), lanes / plan.lanes));
    }
    const int64_t splits = std::min(leaves, ceil_div(wanted_blocks, plan.num_tiles));
    plan.leaves_per_split = plan.lane_splits > 1 ? 1 : static_cast<int>(ceil_div(leaves, splits));
  }
  plan.splits = static_cast<int>(ceil_div(leaves, plan.leaves_per_split));
  plan.lanes_per_thread = static_cast<int>(lanes / plan.lanes / plan.lane_splits);

  // A thread folds its lanes on a stack that is as deep as the fold has levels above one batch; the block's threads
  // fold after that, and the last block folds the partial results on such a stack again.
  const int batch = plan.one_at_a_time ? 1 : kLanesOfTiles;
  const int64_t levels = std::max(0, log2_of(plan.lanes_per_thread) - log2_of(batch));
  const int64_t entries = plan.lane_splits * next_power_of_two(leaves);
  int64_t used = 0;
  place_after(used, int64_t{plan.lanes} * plan.units * traits.value_bytes);
  plan.tiles_shared.stack = place_after(
      used, plan.threads * std::max<int64_t>(levels * traits.value_bytes, log2_of(entries) * traits.part_bytes));
  plan.tiles_shared.parts = place_after(used, int64_t{plan.threads} * traits.part_bytes);
  plan.tiles_shared.focus = place_after(used, int64_t{plan.units} * traits.focus_bytes);
  plan.shared_bytes = static_cast<size_t>(used);
}

void plan_tiles(const Problem& problem, const KernelTraits& traits, const DeviceLimits& limits, Plan& plan) {
  plan.family = Family::kTiles;
  // A walk along more than two axes, or around a very long one, cannot step from element to element.
  const bool steps =
      problem.reduced.count < 2 || (problem.reduced.count == 2 && problem.reduced[1].size < int64_t{1} << 30);
  plan.one_at_a_time = !traits.reads_rows || !steps;
  const int64_t lanes = plan.order.lanes, leaves = plan.order.num_leaves, outputs = problem.num_outputs;
  const int64_t all_bytes = outputs * problem.length * problem.element_bytes;
  const int64_t wanted_blocks =
      std::clamp<int64_t>(all_bytes / policy::kMinBlockBytes, 1, int64_t{policy::kBlocksPerSm} * limits.num_sms);
  plan.lanes_first = problem.kept.count == 0 || (problem.reduced.count > 0 &&
                                                 problem.reduced.innermost().stride < problem.kept.innermost().stride);
  if (plan.lanes_first) {
    plan.lanes = static_cast<int>(std::min<int64_t>(lanes, policy::kThreads));
    plan.units = static_cast<int>(std::min<int64_t>(policy::kThreads / plan.lanes, outputs));
  } else if (lanes <= policy::kMaxLanesOfOneThread && outputs >= policy::kMinThreadsPerSm * limits.num_sms) {
    plan.units = policy::kThreads;
  } else {
    int64_t units = std::clamp(policy::kTileRowBytes / problem.element_bytes, 1, policy::kThreads);
    while (units * problem.element_bytes > policy::kMinTileRowBytes &&
           ceil_div(outputs, units) * leaves < wanted_blocks) {
      units /= 2;
    }
    plan.units = static_cast<int>(std::min(units, outputs));
    plan.lanes = static_cast<int>(std::min(lanes, floor_power_of_two(policy::kThreads / plan.units)));
  }
  plan.num_tiles = ceil_div(outputs, plan.units);
  split_tiles(traits, leaves, wanted_blocks, plan);
  plan.num_items = plan.num_tiles * plan.splits * plan.lane_splits;
  const int64_t entries = plan.lane_splits * next_power_of_two(leaves);
  if (plan.shares_outputs()) plan.num_counters = plan.num_tiles;
  if (entries > 1) plan.partial_bytes = static_cast<size_t>(plan.num_tiles * entries * plan.units * traits.part_bytes);
}

// What blocks ask for before the kernel in front has ended.
void plan_ahead(const Problem& problem, const DeviceLimits& limits, Plan& plan) {
  int per_sm = policy::kAheadBlocksPerSm;
  if (plan.family == Family::kRowsLeaf || plan.family == Family::kRowsBlock) per_sm = policy::kAheadRowsBlocksPerSm;
  if (plan.family == Family::kSegments) per_sm = policy::kAheadSegmentsBlocksPerSm;
  const int64_t all_bytes = problem.num_outputs * problem.length * problem.element_bytes;
  const int64_t least = plan.family == Family::kColumns ? policy::kCachedBytes : policy::kMinAheadBytes;
  if (all_bytes <= least) per_sm = 0;
  // A tile of rows is asked for with what lies between them.
  if (plan.family == Family::kShortRows && !lie_dense(problem, plan)) per_sm = 0;
  plan.ahead_blocks = std::min(plan.num_blocks, int64_t{per_sm} * limits.num_sms);
}

}  // namespace

Plan make_plan(const Problem& problem, const KernelTraits& traits, const DeviceLimits& limits, uint64_t address) {
  Plan plan;
  if (problem.num_outputs == 0) return plan;
  plan.order = make_order(problem.length, problem.element_bytes, traits.wide_lane);
  const Plan nothing_yet = plan;
  bool planned = true;
  if (traits.reads_rows && is_rows(problem)) {
    plan_rows(problem, traits, limits, address, plan);
  } else if (traits.reads_rows && is_segments(problem)) {
    planned = plan_segments(problem, traits, limits, address, plan);
  } else {
    planned = traits.reads_rows && is_columns(problem) && plan_columns(problem, traits, limits, address, plan);
  }
  if (!planned) {
    plan = nothing_yet;
    plan_tiles(problem, traits, limits, plan);
    plan.supported = problem.kept.count <= kMaxAxes && problem.reduced.count <= kMaxAxes;
  }
  plan.supported = plan.supported && static_cast<int64_t>(plan.shared_bytes) <= limits.max_shared_bytes;
  plan.num_blocks = std::min(plan.num_items, limits.max_blocks);
  plan_ahead(problem, limits, plan);
  return plan;
}

}  // namespace gpureduce
