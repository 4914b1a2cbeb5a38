// From a plan to a launch.
#pragma once

#include <array>

#include "cuda/rows.cuh"
#include "cuda/tiles.cuh"
#include "reductions/traits.h"

namespace gpureduce::cuda {

// Whether launches on the current device may overlap their predecessor's end (Hopper and later).
bool overlaps_launches();

template <class Arguments>
cudaError_t launch_kernel(void (*kernel)(Arguments), const Arguments& arguments, const Plan& plan,
                          cudaStream_t stream) {
  constexpr size_t kDefaultSharedBytes = 48 * 1024, kStaticBytes = 1024;  // more than the tiles kernel declares
  if (plan.shared_bytes + kStaticBytes > kDefaultSharedBytes) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(plan.shared_bytes));
    if (error != cudaSuccess) return error;
  }
  std::array<cudaLaunchAttribute, 2> attributes;
  unsigned num_attributes = 0;
  if (overlaps_launches()) {
    attributes[num_attributes].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[num_attributes++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (plan.cluster) {
    constexpr int kPortableCluster = 8;
    if (plan.splits > kPortableCluster) {
      const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
      if (error != cudaSuccess) return error;
    }
    attributes[num_attributes].id = cudaLaunchAttributeClusterDimension;
    attributes[num_attributes++].val.clusterDim = {static_cast<unsigned>(plan.splits), 1, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(plan.num_blocks));
  config.blockDim = dim3(static_cast<unsigned>(plan.threads));
  config.dynamicSmemBytes = plan.shared_bytes;
  config.stream = stream;
  config.attrs = attributes.data();
  config.numAttrs = num_attributes;
  return cudaLaunchKernelEx(&config, kernel, arguments);
}

template <class Reduction, class Element>
cudaError_t launch_rows(const Call& call) {
  const Plan& plan = call.plan;
  const RowsArguments arguments{.input = call.input,
                                .row_stride = plan.row_stride,
                                .num_rows = call.problem.num_outputs,
                                .length = call.problem.length,
                                .leaf_elements = plan.order.leaf_elements,
                                .num_leaves = static_cast<int>(plan.order.num_leaves),
                                .threads_per_row = plan.threads_per_row,
                                .splits = plan.splits,
                                .leaves_per_split = plan.leaves_per_split,
                                .num_items = plan.num_items,
                                .output = call.output,
                                .divisor = call.divisor,
                                .counters = call.workspace.counters,
                                .partials = call.workspace.partials,
                                .output_dtype = call.output_dtype};
  if (plan.family == Family::kRowsWarp) {
    return launch_kernel(plan.one_round ? rows_warp_kernel<Reduction, Element, kRowsOfOneRound>
                                        : rows_warp_kernel<Reduction, Element, 1>,
                         arguments, plan, call.stream);
  }
  return launch_kernel(
      plan.cluster ? rows_block_kernel<Reduction, Element, true> : rows_block_kernel<Reduction, Element, false>,
      arguments, plan, call.stream);
}

template <class Reduction, class Element, int kVector>
cudaError_t launch_tiles(const Call& call) {
  constexpr int kAxes = kVector == 1 ? kMaxAxes : kMaxVectorAxes;
  const Plan& plan = call.plan;
  const TilesArguments<kAxes> arguments{
      .input = call.input,
      .output = call.output,
      .counters = call.workspace.counters,
      .partials = call.workspace.partials,
      .divisor = call.divisor,
      .length = call.problem.length / plan.rows_of_unit,
      .leaf_elements = plan.order.leaf_elements / plan.rows_of_unit,
      .num_units = plan.num_units,
      .num_tiles = plan.num_tiles,
      .num_items = plan.num_items,
      .order_lanes = static_cast<int>(plan.order.lanes / plan.rows_of_unit),
      .num_leaves = static_cast<int>(plan.order.num_leaves),
      .units = plan.units,
      .lanes = plan.lanes,
      .lanes_per_thread = plan.lanes_per_thread,
      .lane_splits = plan.lane_splits,
      .splits = plan.splits,
      .leaves_per_split = plan.leaves_per_split,
      .lanes_first = plan.lanes_first,
      .rows_of_unit = plan.rows_of_unit,
      .input_dtype = call.input_dtype,
      .through = call.through,
      .output_dtype = call.output_dtype,
      .kept = {plan.kept, plan.num_units, kVector},
      .reduced = {plan.reduced, call.problem.length / plan.rows_of_unit, 1, plan.order.lanes / plan.rows_of_unit}};
  if constexpr (kVector > 1) {
    if (plan.family == Family::kThin) {
      return launch_kernel(thin_kernel<Reduction, Element, kVector>, arguments, plan, call.stream);
    }
  } else if (plan.one_at_a_time) {
    return launch_kernel(tiles_kernel<Reduction, Element, 1, 1, 1>, arguments, plan, call.stream);
  }
  if constexpr (!is_converted<Element>) {
    // Eight loads in flight, or sixteen narrow ones; wide values leave registers for fewer lanes.
    constexpr int kLanes = sizeof(typename Reduction::Value) >= 16 ? kLanesOfManyRounds : 2 * kLanesOfManyRounds;
    constexpr int kRounds = kVector > 1 && kLanes > kLanesOfManyRounds ? 2 : 4;
    return launch_kernel(plan.one_round ? tiles_kernel<Reduction, Element, kVector, kLanesOfOneRound, 1>
                                        : tiles_kernel<Reduction, Element, kVector, kLanes, kRounds>,
                         arguments, plan, call.stream);
  }
  return cudaErrorInvalidValue;  // not planned: converted elements come one at a time
}

template <class Reduction, class Element>
cudaError_t launch_element(const Call& call) {
  if constexpr (!is_converted<Element>) {
    if (call.plan.family == Family::kRowsWarp || call.plan.family == Family::kRowsBlock) {
      return launch_rows<Reduction, Element>(call);
    }
    constexpr int kVector = kTileVector<Reduction, Element>;
    if (kVector > 1 && call.plan.vector == kVector) return launch_tiles<Reduction, Element, kVector>(call);
  }
  return launch_tiles<Reduction, Element, 1>(call);
}

// Whether a reduction's result is a position and not a value of its element's kind.
template <class Reduction>
inline constexpr bool kIsIndexed = !std::is_same_v<typename Reduction::Value, typename Reduction::Input>;

}  // namespace gpureduce::cuda
