// From a plan to a launch.
#pragma once

#include <array>
#include <mutex>

#include "core/policy.h"
#include "cuda/short_rows.cuh"
#include "cuda/thin.cuh"
#include "cuda/tiles.cuh"
#include "reductions/kernel_traits.h"

namespace gpureduce::cuda {

// Whether launches on the current device may overlap their predecessor's end (Hopper and later).
bool overlaps_launches();

template <class Arguments>
cudaError_t launch_kernel(void (*kernel)(Arguments), const Arguments& arguments, const Plan& plan,
                          cudaStream_t stream) {
  // More than the kernels declare that ask for about as much as there is without being asked for; `thin` declares
  // more, beside a stack that is 8 KiB short of it or beyond it.
  constexpr size_t kDefaultSharedBytes = 48 * 1024, kStaticBytes = 1024;
  // Until the launch is made no other thread may ask for less.
  static std::mutex shared_bytes_mutex;
  std::unique_lock<std::mutex> lock(shared_bytes_mutex, std::defer_lock);
  if (plan.shared_bytes + kStaticBytes > kDefaultSharedBytes) {
    lock.lock();
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
  if (plan.cluster > 0) {
    constexpr int kPortableCluster = 8;
    if (plan.cluster > kPortableCluster) {
      const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
      if (error != cudaSuccess) return error;
    }
    attributes[num_attributes].id = cudaLaunchAttributeClusterDimension;
    attributes[num_attributes++].val.clusterDim = {static_cast<unsigned>(plan.cluster), 1, 1};
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

inline const void* end_of_input(const Call& call) {
  return static_cast<const char*>(call.input) + span_elements(call.problem) * call.problem.element_bytes;
}

template <class Reduction, class Element, bool kShifted>
cudaError_t launch_short_rows(const RowsArguments& rows, const Call& call) {
  constexpr int kCount = kSlots<Element>, kVectorBytes = sizeof(uint4);
  const Plan& plan = call.plan;
  const int num_vectors = static_cast<int>(ceil_div(rows.length, kCount));
  int copied_vectors = num_vectors;
  if constexpr (kShifted) {
    const int skip = static_cast<int>(reinterpret_cast<uintptr_t>(call.input) % kVectorBytes / sizeof(Element));
    copied_vectors = plan.row_stride % kCount == 0 ? static_cast<int>(ceil_div(skip + rows.length, kCount)) : 0;
  }
  const ShortArguments arguments{rows,
                                 num_vectors,
                                 /*lane_vectors=*/static_cast<int>(ceil_div(plan.order.lanes, kCount)),
                                 plan.rows_per_tile,
                                 copied_vectors,
                                 Divider(std::max(1, copied_vectors))};
  const auto launch_of = [&](auto kernel) { return launch_kernel(kernel, arguments, plan, call.stream); };
  if constexpr (has_all_kernels<Reduction, Element>) {
    if (plan.vectors_per_thread <= kFewShortVectors) {
      return launch_of(short_rows_kernel<Reduction, Element, kFewShortVectors, kShifted>);
    }
  }
  return launch_of(short_rows_kernel<Reduction, Element, kShortVectors, kShifted>);
}

template <class Reduction, class Element>
cudaError_t launch_rows(const Call& call) {
  const Plan& plan = call.plan;
  const RowsArguments rows{.input = call.input,
                           .row_stride = plan.row_stride,
                           .num_rows = call.problem.num_outputs,
                           .length = call.problem.length,
                           .leaf_elements = plan.order.leaf_elements,
                           .num_leaves = static_cast<int>(plan.order.num_leaves),
                           .threads_per_row = plan.threads_per_row,
                           .splits = {plan.splits, plan.num_items},
                           .leaves_per_split = plan.leaves_per_split,
                           .one_wave = plan.one_wave,
                           .num_items = plan.num_items,
                           .ahead_blocks = plan.ahead_blocks,
                           .ahead_bytes = policy::kAheadBytes,
                           .outputs = call.outputs,
                           .finish = call.finish,
                           .counters = call.workspace.counters,
                           .partials = call.workspace.partials};
  constexpr bool kAll = has_all_kernels<Reduction, Element>;
  const auto launch_of = [&](auto kernel) { return launch_kernel(kernel, rows, plan, call.stream); };
  switch (plan.family) {
    case Family::kTinyRows:
      if constexpr (kAll && !Focused<Reduction>) return launch_of(tiny_rows_kernel<Reduction, Element>);
      break;
    case Family::kShortRows:
      return launch_short_rows<Reduction, Element, false>(rows, call);
    case Family::kStagedRows:
      return launch_short_rows<Reduction, Element, true>(rows, call);
    case Family::kRowsWarp:
      if constexpr (kAll) {
        const bool are_few = plan.vectors_per_thread <= 2;
        if (plan.aligned && are_few) return launch_of(rows_warp_kernel<Reduction, Element, true, 2>);
        if (plan.aligned) return launch_of(rows_warp_kernel<Reduction, Element, true, 4>);
        if (are_few) return launch_of(rows_warp_kernel<Reduction, Element, false, 2>);
      }
      return launch_of(rows_warp_kernel<Reduction, Element, false, row_batch<Reduction, Element>(4, false)>);
    case Family::kRowsLeaf:
      if constexpr (pairs_leaves<Reduction>) {
        if (plan.order.num_leaves == 2) {
          if constexpr (kAll) {
            if (plan.aligned) return launch_of(rows_leaf_kernel<Reduction, Element, true, true>);
          }
          return launch_of(rows_leaf_kernel<Reduction, Element, false, true>);
        }
      }
      if constexpr (kAll) {
        if (plan.aligned) return launch_of(rows_leaf_kernel<Reduction, Element, true, false>);
      }
      return launch_of(rows_leaf_kernel<Reduction, Element, false, false>);
    case Family::kRowsBlock:
      if constexpr (clusters_rows<Reduction>) {
        if (plan.cluster > 0) return launch_of(rows_block_kernel<Reduction, Element, RowsForm::kCluster>);
      }
      if constexpr (kAll) {
        if (plan.aligned) return launch_of(rows_block_kernel<Reduction, Element, RowsForm::kAlignedTicket>);
      }
      return launch_of(rows_block_kernel<Reduction, Element, RowsForm::kTicket>);
    case Family::kSegments: {
      const bool narrow = call.problem.length < int64_t{1} << 31;
      AxisList outer = call.problem.reduced;
      outer.count--;
      const int64_t num_segments = call.problem.length / plan.segment_elements;
      const int64_t length = plan.segment_elements, step = int64_t{plan.threads} * kSlots<Element>;
      const int64_t stride = outer.count == 1 ? outer[0].stride : 0;
      const SegmentsArguments segments{rows,
                                       length,
                                       narrow ? Divider(length) : Divider{},
                                       narrow,
                                       /*steps=*/outer.count == 1,
                                       /*step_inner=*/step % length,
                                       /*step_offset=*/step / length * stride + step % length,
                                       /*wrap_offset=*/stride - length,
                                       end_of_input(call),
                                       {call.problem.kept, call.problem.num_outputs},
                                       {outer, num_segments}};
      if constexpr (kAll) {
        if (!plan.aligned) {
          return launch_kernel(rows_block_kernel<Reduction, Element, RowsForm::kBrokenSegments>, segments, plan,
                               call.stream);
        }
      }
      return launch_kernel(rows_block_kernel<Reduction, Element, RowsForm::kSegments>, segments, plan, call.stream);
    }
    default:
      break;
  }
  return cudaErrorInvalidValue;  // not planned
}

template <class Reduction, class Element>
cudaError_t launch_thin(const Call& call) {
  const Plan& plan = call.plan;
  const AxisList &kept = call.problem.kept, &reduced = call.problem.reduced;
  AxisList matrices = kept;
  matrices.count--;
  const ThinArguments arguments{.input = call.input,
                                .outputs = call.outputs,
                                .finish = call.finish,
                                .row_stride = plan.row_stride,
                                .row_place = reduced.count == 0 ? 0 : reduced[0].place,
                                .length = static_cast<int>(call.problem.length),
                                .lanes = plan.lanes_per_thread,
                                .width = kept.innermost().size,
                                .num_vectors = plan.num_tiles,
                                .num_items = plan.num_items,
                                .ahead_blocks = plan.ahead_blocks,
                                .vectors_per_row = {plan.tiles_per_row, plan.num_tiles},
                                .kept = {matrices, plan.num_tiles / plan.tiles_per_row},
                                .end = end_of_input(call)};
  const auto launch_of = [&](auto kernel) { return launch_kernel(kernel, arguments, plan, call.stream); };
  if constexpr (has_all_kernels<Reduction, Element>) {
    if constexpr (kTileVector<Reduction, Element> == kSlots<Element>) {
      if (!plan.aligned) return launch_of(thin_kernel<Reduction, Element, kThinLoads, true>);
    }
    if (thin_rows(call.problem.length, true, false) == 2) return launch_of(thin_kernel<Reduction, Element, 2, false>);
    if (thin_rows(call.problem.length, true, false) == 4) return launch_of(thin_kernel<Reduction, Element, 4, false>);
  }
  return launch_of(thin_kernel<Reduction, Element, kThinLoads, false>);
}

template <class Reduction, class Element>
cudaError_t launch_columns(const Call& call) {
  const Plan& plan = call.plan;
  const AxisList &kept = call.problem.kept, &reduced = call.problem.reduced;
  const int64_t step_place = reduced.count == 0 ? 0 : reduced[0].place;
  AxisList matrices = kept;
  matrices.count--;
  const ColumnsArguments arguments{.input = call.input,
                                   .outputs = call.outputs,
                                   .counters = call.workspace.counters,
                                   .partials = call.workspace.partials,
                                   .finish = call.finish,
                                   .row_stride = plan.row_stride,
                                   .row_place = step_place * plan.rows_of_unit,
                                   .length = ceil_div(call.problem.length, plan.rows_of_unit),
                                   .leaf_elements = plan.order.leaf_elements,
                                   .width = kept.innermost().size * plan.rows_of_unit,
                                   .place = kept.innermost().place,
                                   .reduced_length = call.problem.length,
                                   .num_items = plan.num_items,
                                   .ahead_blocks = plan.ahead_blocks,
                                   .num_tiles = {plan.num_tiles, plan.num_items},
                                   .tiles_per_row = {plan.tiles_per_row, plan.num_tiles},
                                   .sharers = {plan.num_items / plan.num_tiles, plan.num_items},
                                   .order_lanes = static_cast<int>(plan.order.lanes),
                                   .num_leaves = static_cast<int>(plan.order.num_leaves),
                                   .vectors = {plan.units, plan.threads},
                                   .lanes = plan.lanes,
                                   .lanes_per_thread = plan.lanes_per_thread,
                                   .lane_splits = plan.lane_splits,
                                   .splits = plan.splits,
                                   .tile_outputs = plan.tile_outputs,
                                   .rows_of_unit = plan.rows_of_unit,
                                   .fold_groups = plan.fold_groups,
                                   .entries_of_tile = plan.entries_of_tile,
                                   .cluster = plan.cluster > 0,
                                   .is_small = plan.is_small,
                                   .shared = plan.columns_shared,
                                   .kept = {matrices, plan.num_tiles / std::max<int64_t>(1, plan.tiles_per_row)},
                                   .end = end_of_input(call)};
  const auto launch_of = [&](auto kernel) { return launch_kernel(kernel, arguments, plan, call.stream); };
  if constexpr (Reduction::kOrdered) {
    if constexpr (has_all_kernels<Reduction, Element>) {
      if (plan.nine_warps) return launch_of(columns_kernel<Reduction, Element, 4, true>);
      if (plan.rounds_at_once == 1) return launch_of(columns_kernel<Reduction, Element, 1>);
      if (plan.rounds_at_once == 2) return launch_of(columns_kernel<Reduction, Element, 2>);
    }
    return launch_of(columns_kernel<Reduction, Element, 4>);
  } else {
    return launch_of(columns_kernel<Reduction, Element, 8>);
  }
}

template <class Reduction, class Element>
cudaError_t launch_tiles(const Call& call) {
  const Plan& plan = call.plan;
  const TilesArguments arguments{.input = call.input,
                                 .outputs = call.outputs,
                                 .counters = call.workspace.counters,
                                 .partials = call.workspace.partials,
                                 .finish = call.finish,
                                 .length = call.problem.length,
                                 .leaf_elements = plan.order.leaf_elements,
                                 .num_outputs = call.problem.num_outputs,
                                 .num_tiles = plan.num_tiles,
                                 .num_items = plan.num_items,
                                 .order_lanes = static_cast<int>(plan.order.lanes),
                                 .num_leaves = static_cast<int>(plan.order.num_leaves),
                                 .units = plan.units,
                                 .lanes = plan.lanes,
                                 .lanes_per_thread = plan.lanes_per_thread,
                                 .lane_splits = plan.lane_splits,
                                 .splits = plan.splits,
                                 .leaves_per_split = plan.leaves_per_split,
                                 .lanes_first = plan.lanes_first,
                                 .shared = plan.tiles_shared,
                                 .input_dtype = call.input_dtype,
                                 .through = call.through,
                                 .kept = {call.problem.kept, call.problem.num_outputs},
                                 .reduced = {call.problem.reduced, call.problem.length, plan.order.lanes}};
  if (plan.one_at_a_time) {
    return launch_kernel(tiles_kernel<Reduction, Element, 1, 1>, arguments, plan, call.stream);
  }
  if constexpr (!is_converted<Element>) {
    // Sixteen loads in flight, or eight of wide values.
    constexpr int kLanes = sizeof(typename Reduction::Value) >= 16 ? kLanesOfTiles : 2 * kLanesOfTiles;
    return launch_kernel(tiles_kernel<Reduction, Element, kLanes, 4>, arguments, plan, call.stream);
  }
  return cudaErrorInvalidValue;  // not planned: converted elements come one at a time
}

// Whether the kernels write all outputs that are asked for (is_output()).
template <class Reduction>
bool writes_all(const Outputs& outputs) {
  int left = 0;
  for (const Output& output : outputs) left += output.data != nullptr;
  for_each_output<Reduction, PartOf<Reduction>>(outputs, [&]<int kIndex, class Out>(void*) { left--; });
  return left == 0;
}

template <class Reduction, class Element>
cudaError_t launch_element(const Call& call) {
  if (!writes_all<Reduction>(call.outputs)) return cudaErrorInvalidValue;
  if constexpr (!is_converted<Element>) {
    if (call.plan.family == Family::kThin) return launch_thin<Reduction, Element>(call);
    if (call.plan.family == Family::kColumns) return launch_columns<Reduction, Element>(call);
    if (call.plan.family != Family::kTiles) return launch_rows<Reduction, Element>(call);
  }
  return launch_tiles<Reduction, Element>(call);
}

}  // namespace gpureduce::cuda
