// What the planner must know of a reduction's kernels, had on the host and without CUDA: a plan can be made, and
// explained, by a library that has no kernels to run it.
#pragma once

#include <algorithm>
#include <bit>

#include "core/plan.h"
#include "reductions/count_nonzero.h"
#include "reductions/sum.h"

namespace gpureduce {

// Whether the columns kernel keeps its lanes packed (cuda/packed.cuh): sums and counts of bytes, positions of 16-bit
// floats.
template <class Reduction, class Element>
inline constexpr bool packs_columns =
    finds_position<Reduction>
        ? is_small_float<Element> && sizeof(Element) == 2
        : sizeof(Element) == 1 && !is_small_float<Element> &&
              (std::is_same_v<Reduction, Sum<Element>> || std::is_same_v<Reduction, CountNonzero<Element>>);

inline constexpr int kMostPackedRows = 1 << 16;  // of a lane

// Outputs that a thread of the columns kernel takes at once: 16 bytes of them, fewer where their lanes and what these
// are measured against would fill the registers.
template <class Reduction, class Element>
constexpr int tile_vector() {
  constexpr size_t kBytes = 16 / sizeof(Element);
  if (packs_columns<Reduction, Element>) return static_cast<int>(kBytes);
  size_t state = sizeof(typename Reduction::Value);
  if (Focused<Reduction>) state += sizeof(FocusOf<Reduction>);
  constexpr size_t kMost = has_wide_lanes<Reduction>() ? 4 : 8;
  return static_cast<int>(std::min({kBytes, std::max(size_t{1}, std::bit_floor(96 / state)), kMost}));
}
template <class Reduction, class Element>
inline constexpr int kTileVector = tile_vector<Reduction, Element>();
template <class Reduction, class Acc>
inline constexpr int kTileVector<Reduction, Converted<Acc>> = 1;

// What most calls are of, by reduction and by element type, has kernels for every case that gains by one. The others do
// with the general ones, which give the same bits: each kernel is compiled for each reduction and type, and the build
// is to stay short.
template <class Reduction, class Element>
inline constexpr bool has_all_kernels =
    is_common<Reduction>() &&
    (std::is_same_v<Element, float> || std::is_same_v<Element, Half> || std::is_same_v<Element, BFloat16> ||
     std::is_same_v<Element, int8_t> || std::is_same_v<Reduction, CountNonzero<Bool>> ||
     std::is_same_v<Reduction, Sum<uint8_t>> || std::is_same_v<Reduction, Sum<Bool>>);

// Whether there is a kernel for rows of two leaves. Full reductions of 4096 elements of 8 bytes are such rows.
template <class Reduction>
inline constexpr bool pairs_leaves = is_common<Reduction>() && rows_at_once(has_wide_lanes<Reduction>()) == 2;

// Whether there is a kernel for rows whose blocks are a cluster. Others meet in memory, with a ticket.
template <class Reduction>
inline constexpr bool clusters_rows = is_common<Reduction>();

// A leaf that has no part yet.
template <class Reduction>
struct UnfinishedLeaf {
  FocusOf<Reduction> focus;
  typename Reduction::Value value;
};

// What a leaf takes in a block's shared memory: its part, or what this is made of.
template <class Reduction>
constexpr int leaf_bytes() {
  using Part = PartOf<Reduction>;
  using Unfinished = UnfinishedLeaf<Reduction>;
  if constexpr (!Focused<Reduction>) return sizeof(Part);
  constexpr size_t kAlignment = std::max(alignof(Unfinished), alignof(Part));
  return static_cast<int>((std::max(sizeof(Unfinished), sizeof(Part)) + kAlignment - 1) / kAlignment * kAlignment);
}

// Of the kernels that serve `dtype`, a member of the group (for Converted: what the elements are converted to).
template <template <class> class Reduction, DTypeGroup Group>
constexpr KernelTraits kernel_traits(DType dtype) {
  return dispatch_in_group<Group>(dtype, KernelTraits{}, [&]<class Element>() -> KernelTraits {
    if constexpr (is_compiled<Reduction, Element>) {
      using Read = ReadAs<Reduction, Element>;
      using R = Reduction<Read>;
      return {.value_bytes = sizeof(typename R::Value),
              .part_bytes = sizeof(PartOf<R>),
              .leaf_bytes = leaf_bytes<R>(),
              .focus_bytes = Focused<R> ? sizeof(FocusOf<R>) : 0,
              .tile_vector = kTileVector<R, Read>,
              .most_lane_rows = packs_columns<R, Read> ? kMostPackedRows : 0,
              .ordered = R::kOrdered,
              .wide_lane = has_wide_lanes<R>(),
              .all_kernels = has_all_kernels<R, Read>,
              .pairs_leaves = pairs_leaves<R>,
              .clusters_rows = clusters_rows<R>,
              .reads_rows = !is_converted<Element>};
    }
    return {};
  });
}

}  // namespace gpureduce
