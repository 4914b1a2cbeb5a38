// What the planner must know of a reduction's kernels, had on the host and without CUDA: a plan can be made, and
// explained, by a library that has no kernels to run it.
#pragma once

#include <algorithm>

#include "core/dtype.h"
#include "core/plan.h"

namespace gpureduce {

// Whether a reduction's result is a position and not a value of its element's kind.
template <class Reduction>
inline constexpr bool kIsIndexed = !std::is_same_v<typename Reduction::Value, typename Reduction::Input>;

// Whether a reduction is compiled for an element type.
template <template <class> class Reduction, class Element>
inline constexpr bool is_compiled =
    Reduction<Element>::kMeaningful && (Reduction<Element>::kConverts || !is_converted<Element>);

// Outputs that a thread of the tiles kernel takes at once: 16 bytes of them, fewer where their lanes would fill the
// registers.
template <class Reduction, class Element>
inline constexpr int kTileVector = static_cast<int>(
    std::min({16 / sizeof(Element), std::max<size_t>(1, 64 / sizeof(typename Reduction::Value)), size_t{8}}));
template <class Reduction, class Acc>
inline constexpr int kTileVector<Reduction, Converted<Acc>> = 1;

// Of the kernels that serve `dtype`, a member of the group (for Converted: what the elements are converted to).
template <template <class> class Reduction, DTypeGroup Group>
constexpr KernelTraits kernel_traits(DType dtype) {
  return dispatch_in_group<Group>(dtype, KernelTraits{}, [&]<class Element>() -> KernelTraits {
    if constexpr (is_compiled<Reduction, Element>) {
      using R = Reduction<Element>;
      return {.value_bytes = sizeof(typename R::Value),
              .tile_vector = kTileVector<R, Element>,
              .ordered = R::kOrdered,
              .indexed = kIsIndexed<R>,
              .reads_rows = !is_converted<Element>};
    }
    return {};
  });
}

}  // namespace gpureduce
