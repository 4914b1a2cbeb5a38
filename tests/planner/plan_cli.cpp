// Prints the plan of each problem on standard input, one a line, as a line of JSON. Links csrc/core alone: no torch, no
// GPU.
//
//   sizes strides reduced_dims element_bytes value_bytes tile_vector ordered focus_bytes reads_rows indexed address num_sms max_blocks
//
// Lists are comma-separated, "-" is an empty one.
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "core/plan.h"

namespace {

std::vector<int64_t> parse(const std::string& text) {
  std::vector<int64_t> values;
  std::stringstream stream(text == "-" ? "" : text);
  for (std::string part; std::getline(stream, part, ',');) values.push_back(std::stoll(part));
  return values;
}

const char* name_of(gpureduce::Family family) {
  constexpr const char* kNames[] = {"nothing", "tiny_rows", "short_rows", "staged_rows", "rows_warp", "rows_leaf", "rows_block",
                                    "segments", "thin",       "columns",     "tiles"};
  return kNames[static_cast<int>(family)];
}

}  // namespace

int main() {
  using namespace gpureduce;
  for (std::string line; std::getline(std::cin, line);) {
    std::stringstream fields(line);
    std::string sizes_text, strides_text, reduced_text;
    int element_bytes;
    KernelTraits traits;
    bool indexed;
    uint64_t address;
    DeviceLimits limits;
    fields >> sizes_text >> strides_text >> reduced_text >> element_bytes >> traits.value_bytes >> traits.tile_vector >>
        traits.ordered >> traits.focus_bytes >> traits.reads_rows >> indexed >> address >> limits.num_sms >>
        limits.max_blocks;
    traits.part_bytes = traits.value_bytes;
    const std::vector<int64_t> sizes = parse(sizes_text), strides = parse(strides_text);
    std::bitset<kMaxDims> reduced;
    for (const int64_t dim : parse(reduced_text)) reduced.set(dim);
    const Problem problem =
        make_problem(static_cast<int>(sizes.size()), sizes.data(), strides.data(), reduced, element_bytes, indexed);
    const Plan plan = make_plan(problem, traits, limits, address);
    std::cout << "{\"family\": \"" << name_of(plan.family) << "\", \"supported\": " << plan.supported
              << ", \"num_outputs\": " << problem.num_outputs << ", \"length\": " << problem.length
              << ", \"order_lanes\": " << plan.order.lanes << ", \"leaf_elements\": " << plan.order.leaf_elements
              << ", \"num_leaves\": " << plan.order.num_leaves << ", \"threads\": " << plan.threads
              << ", \"num_items\": " << plan.num_items << ", \"num_blocks\": " << plan.num_blocks
              << ", \"splits\": " << plan.splits << ", \"leaves_per_split\": " << plan.leaves_per_split
              << ", \"row_stride\": " << plan.row_stride << ", \"threads_per_row\": " << plan.threads_per_row
              << ", \"one_round\": " << plan.one_round << ", \"rounds_at_once\": " << plan.rounds_at_once << ", \"vector\": " << plan.vector
              << ", \"units\": " << plan.units << ", \"lanes\": " << plan.lanes
              << ", \"lanes_first\": " << plan.lanes_first << ", \"lanes_per_thread\": " << plan.lanes_per_thread
              << ", \"lane_splits\": " << plan.lane_splits << ", \"owns_outputs\": " << plan.owns_outputs
              << ", \"aligned\": " << plan.aligned << ", \"tile_outputs\": " << plan.tile_outputs
              << ", \"tiles_per_row\": " << plan.tiles_per_row << ", \"rows_per_tile\": " << plan.rows_per_tile
              << ", \"vectors_per_thread\": " << plan.vectors_per_thread << ", \"num_tiles\": " << plan.num_tiles << ", \"shared_bytes\": " << plan.shared_bytes
              << ", \"cluster\": " << plan.cluster << ", \"rows_of_unit\": " << plan.rows_of_unit
              << ", \"num_counters\": " << plan.num_counters << ", \"partial_bytes\": " << plan.partial_bytes << "}\n";
  }
}
