// What the kernels of both devices ask about a reduction.
#pragma once

#include "core/dtype.h"

namespace gpureduce {

// Whether a reduction is compiled for an element type.
template <template <class> class Reduction, class Element>
inline constexpr bool is_compiled =
    Reduction<Element>::kMeaningful && (Reduction<Element>::kConverts || !is_converted<Element>);

// Whether a reduction looks for a position: of the greatest key the one with the lowest index.
template <class Reduction>
inline constexpr bool finds_position = requires(typename Reduction::Value value) {
  value.key;
  value.index;
};

}  // namespace gpureduce
