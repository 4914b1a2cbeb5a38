#include "core/plan.h"

#include <algorithm>
#include <numeric>

#include "core/policy.h"

namespace gpureduce {
namespace {

constexpr int kVectorBytes = 16, kWarp = 32;

int64_t floor_power_of_two(int64_t x) {
  return x <= 1 ? 1 : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(x)));
}

bool is_rows(const Problem& problem) {
  return problem.reduced.count == 1 && problem.reduced[0].stride == 1 && problem.reduced[0].place == 1 &&
         problem.kept.count <= 1 && (problem.kept.count == 0 || problem.kept[0].place == 1);
}

void plan_rows(const Problem& problem, const KernelTraits& traits, const DeviceLimits& limits, Plan& plan) {
  const int64_t vector = kVectorBytes / problem.element_bytes;
  const int64_t rows = problem.num_outputs, leaves = plan.order.num_leaves;
  plan.row_stride = problem.kept.count == 0 ? 0 : problem.kept[0].stride;
  plan.threads_per_row = static_cast<int>(std::max<int64_t>(1, plan.order.lanes / vector));
  if (plan.threads_per_row <= kWarp && leaves == 1) {
    plan.family = Family::kRowsWarp;
    plan.one_round = problem.length <= plan.order.lanes;
    const int64_t rows_at_once = kWarp / plan.threads_per_row * (plan.one_round ? kRowsOfOneRound : 1);
    const int64_t warps = ceil_div(rows, rows_at_once);
    const int64_t warps_per_block =
        std::clamp<int64_t>(floor_power_of_two(warps / limits.num_sms), 1, policy::kThreads / kWarp);
    plan.threads = static_cast<int>(warps_per_block) * kWarp;
    plan.num_items = ceil_div(warps, warps_per_block);
    return;
  }
  plan.family = Family::kRowsBlock;
  plan.threads = std::max(kWarp, plan.threads_per_row);
  const int64_t leaf_vectors = std::min(plan.order.leaf_elements, problem.length) / vector;
  if (!traits.ordered && leaf_vectors >= policy::kThreads * policy::kVectorsPerFreeThread)
    plan.threads = policy::kThreads;
  if (leaves > policy::kLeavesOfOneBlock && rows < policy::kWholeRowsPerSm * limits.num_sms) {
    const int64_t share = rows * leaves / (policy::kLeafBlocksPerSm * limits.num_sms);
    plan.splits = static_cast<int>(ceil_div(leaves, std::clamp<int64_t>(share, 1, leaves)));
  }
  plan.leaves_per_split = static_cast<int>(ceil_div(leaves, plan.splits));
  plan.splits = static_cast<int>(ceil_div(leaves, plan.leaves_per_split));
  plan.num_items = rows * plan.splits;
  plan.cluster = plan.splits > 1 && plan.splits <= limits.max_cluster && plan.leaves_per_split == 1 &&
                 plan.num_items <= limits.num_sms;
  if (plan.splits > 1 && !plan.cluster) {
    plan.num_counters = rows;
    plan.partial_bytes = static_cast<size_t>(rows * leaves * traits.value_bytes);
  }
}

// The widest vector of neighbouring outputs that every position offers at an aligned address.
int tile_vector(const Problem& problem, const KernelTraits& traits, uint64_t address) {
  const int vector = traits.tile_vector;
  if (problem.kept.count == 0 || problem.kept.count > kMaxVectorAxes || problem.reduced.count > kMaxVectorAxes)
    return 1;
  const Axis& inner = problem.kept.innermost();
  if (inner.stride != 1 || inner.place != 1 || inner.size % vector != 0) return 1;
  if (address % (vector * problem.element_bytes) != 0) return 1;
  for (int i = 0; i < problem.kept.count - 1; i++) {
    if (problem.kept[i].stride % vector != 0) return 1;
  }
  for (int i = 0; i < problem.reduced.count; i++) {
    if (problem.reduced[i].stride % vector != 0) return 1;
  }
  return vector;
}

// Columns too narrow for a vector, in rows without gaps: as many rows as fill whole vectors become one.
void join_narrow_rows(const Problem& problem, const KernelTraits& traits, uint64_t address, Plan& plan) {
  if (problem.kept.count != 1 || problem.reduced.count != 1 || !traits.reads_rows) return;
  Axis &columns = plan.kept.axes[0], &rows = plan.reduced.axes[0];
  const int64_t vector = traits.tile_vector, joined = vector / std::gcd(columns.size, vector);
  if (columns.stride != 1 || columns.place != 1 || rows.stride != columns.size || rows.place != 1) return;
  if (traits.indexed || columns.size * joined > policy::kThreads / 2 * vector || rows.size % joined != 0) return;
  if (plan.order.lanes % joined != 0 || address % (vector * problem.element_bytes) != 0) return;
  plan.rows_of_unit = static_cast<int>(joined);
  plan.vector = static_cast<int>(vector);
  columns.size *= joined;
  rows.size /= joined;
  rows.stride *= joined;
}

// What follows from a tile's units and lanes: the split over blocks and the shared memory.
void split_tiles(const KernelTraits& traits, int64_t leaves, int64_t wanted_blocks, Plan& plan) {
  const int64_t lanes = plan.order.lanes / plan.rows_of_unit;
  plan.threads = static_cast<int>(ceil_div(plan.units * plan.lanes, kWarp)) * kWarp;
  plan.num_tiles = ceil_div(plan.num_units, plan.units);
  plan.lane_splits = 1;
  plan.leaves_per_split = static_cast<int>(leaves);
  if (plan.num_tiles < wanted_blocks) {
    const int64_t spare = std::min<int64_t>(wanted_blocks / (plan.num_tiles * leaves), policy::kMaxLaneSplits);
    // The rows of a unit fold after the lanes that blocks share, so these may not be split.
    if (plan.rows_of_unit == 1) {
      plan.lane_splits = static_cast<int>(std::min(floor_power_of_two(spare), lanes / plan.lanes));
    }
    const int64_t splits = std::min(leaves, ceil_div(wanted_blocks, plan.num_tiles));
    plan.leaves_per_split = plan.lane_splits > 1 ? 1 : static_cast<int>(ceil_div(leaves, splits));
  }
  plan.splits = static_cast<int>(ceil_div(leaves, plan.leaves_per_split));
  plan.lanes_per_thread = static_cast<int>(lanes / plan.lanes / plan.lane_splits);

  // A thread folds its lanes on a stack that is as deep as the fold has levels above one batch; the block's threads
  // fold after that, and the last block folds the partial results on such a stack again.
  const int batch = plan.one_at_a_time ? 1 : plan.one_round ? kLanesOfOneRound : kLanesOfManyRounds;
  const int64_t levels = std::max(0, log2_of(plan.lanes_per_thread) - log2_of(batch));
  const int64_t entries = plan.lane_splits * next_power_of_two(leaves);
  const int64_t stack = levels * plan.threads * plan.vector;
  const int64_t finish_stack = entries > 1 ? log2_of(entries) * plan.threads : 0;
  const int64_t fold = std::max<int64_t>(plan.lanes * plan.units * plan.vector, plan.threads);
  plan.shared_bytes = static_cast<size_t>((std::max(stack, finish_stack) + fold) * traits.value_bytes);
}

void plan_tiles(const Problem& problem, const KernelTraits& traits, const DeviceLimits& limits, uint64_t address,
                bool may_join, Plan& plan) {
  plan.family = Family::kTiles;
  plan.kept = problem.kept;
  plan.reduced = problem.reduced;
  // A walk along more than two axes, or around a very long one, cannot step from element to element.
  const bool steps =
      problem.reduced.count < 2 || (problem.reduced.count == 2 && problem.reduced[1].size < int64_t{1} << 30);
  plan.one_round = problem.length <= plan.order.lanes;
  plan.one_at_a_time = !traits.reads_rows || !(steps || plan.one_round);
  plan.vector = plan.one_at_a_time ? 1 : tile_vector(problem, traits, address);
  if (may_join && plan.vector == 1 && !plan.one_at_a_time) join_narrow_rows(problem, traits, address, plan);
  plan.num_units = problem.num_outputs * plan.rows_of_unit / plan.vector;
  if (plan.vector > 1 && plan.rows_of_unit == 1 && problem.length <= kThinLength) {
    plan.family = Family::kThin;
    plan.threads = policy::kThreads;
    plan.num_items = ceil_div(plan.num_units, policy::kThreads * kThinUnits);
    return;
  }
  const int64_t lanes = plan.order.lanes / plan.rows_of_unit, leaves = plan.order.num_leaves;
  const int unit_bytes = plan.vector * problem.element_bytes;
  const int64_t all_bytes = problem.num_outputs * problem.length * problem.element_bytes;
  const int64_t wanted_blocks =
      std::clamp<int64_t>(all_bytes / policy::kMinBlockBytes, 1, policy::kBlocksPerSm * limits.num_sms);
  plan.lanes_first = plan.rows_of_unit == 1 && problem.reduced.count > 0 && problem.kept.count > 0 &&
                     problem.reduced.innermost().stride < problem.kept.innermost().stride;
  if (problem.kept.count == 0) plan.lanes_first = true;

  if (plan.rows_of_unit > 1) {
    plan.units = static_cast<int>(plan.num_units);  // a tile must hold the whole row
    plan.lanes = static_cast<int>(std::min(lanes, floor_power_of_two(policy::kThreads / plan.units)));
  } else if (plan.lanes_first) {
    plan.lanes = static_cast<int>(std::min<int64_t>(lanes, policy::kThreads));
    plan.units = static_cast<int>(std::min<int64_t>(policy::kThreads / plan.lanes, plan.num_units));
  } else if (lanes <= policy::kMaxLanesOfOneThread && plan.num_units >= policy::kMinThreadsPerSm * limits.num_sms) {
    plan.units = policy::kThreads;
  } else {
    int64_t units = std::clamp(policy::kTileRowBytes / unit_bytes, 1, policy::kThreads);
    while (units * unit_bytes > policy::kMinTileRowBytes && ceil_div(plan.num_units, units) * leaves < wanted_blocks) {
      units /= 2;
    }
    plan.units = static_cast<int>(std::min(units, plan.num_units));
    plan.lanes = static_cast<int>(std::min(lanes, floor_power_of_two(policy::kThreads / plan.units)));
  }
  split_tiles(traits, leaves, wanted_blocks, plan);
  while (plan.shared_bytes > policy::kMaxTileSharedBytes && !plan.lanes_first && plan.rows_of_unit == 1 &&
         plan.units > 1 && 2 * plan.lanes <= lanes) {
    plan.units = (plan.units + 1) / 2;
    plan.lanes *= 2;
    split_tiles(traits, leaves, wanted_blocks, plan);
  }
  plan.num_items = plan.num_tiles * plan.splits * plan.lane_splits;
  const int64_t entries = plan.lane_splits * next_power_of_two(leaves);
  if (plan.shares_outputs()) plan.num_counters = plan.num_tiles;
  if (entries > 1)
    plan.partial_bytes = static_cast<size_t>(plan.num_tiles * entries * plan.units * plan.vector * traits.value_bytes);
}

}  // namespace

Plan make_plan(const Problem& problem, const KernelTraits& traits, const DeviceLimits& limits, uint64_t address) {
  Plan plan;
  if (problem.num_outputs == 0) return plan;
  plan.order = make_order(problem.length, problem.element_bytes, traits.wide_lane);
  if (traits.reads_rows && is_rows(problem)) {
    plan_rows(problem, traits, limits, plan);
  } else {
    Plan tiles = plan;
    plan_tiles(problem, traits, limits, address, /*may_join=*/true, tiles);
    if (tiles.rows_of_unit > 1 && tiles.shared_bytes > policy::kMaxTileSharedBytes) {
      // Not so narrow after all: the whole row in one block leaves it too few lanes.
      tiles = plan;
      plan_tiles(problem, traits, limits, address, /*may_join=*/false, tiles);
    }
    plan = tiles;
    plan.supported = problem.kept.count <= kMaxAxes && problem.reduced.count <= kMaxAxes &&
                     static_cast<int64_t>(plan.shared_bytes) <= limits.max_shared_bytes;
  }
  plan.num_blocks = std::min(plan.num_items, limits.max_blocks);
  return plan;
}

}  // namespace gpureduce
