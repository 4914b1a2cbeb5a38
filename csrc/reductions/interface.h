// What a reduction may offer beyond the list in reductions/sum.h, and what the loops and kernels call either way.
//
//   Focus      what take() measures elements against; every leaf has its own, so that all who walk it agree:
//     focus(first, arguments)         from the leaf's first element
//     take(value, x, index, focus)
//     refocus(focus, value, count, arguments)
//                                     whether the leaf has to be walked once more, with a focus that suits it better.
//                                     Sees the fold of the leaf's `count` elements
//   Part       the value of a leaf and of the result, where that is not a lane's:
//     part(value, focus, count), merge(part, part), part_identity(), finish(part, ...)
//
//   neutral()  an Element (for converted ones: an Input) that take() passes over wherever it stands behind real elements,
//              so that kernels may fill up whole vectors with it
//
// A Focus has no say in how elements are combined, only in what is added up for each; the order stays core/order.h's.
#pragma once

#include <cstdint>
#include <type_traits>

namespace gpureduce {

template <class Reduction>
concept Focused = requires { typename Reduction::Focus; };

struct NoFocus {};

template <class Reduction>
struct LeafTypes {
  using Focus = NoFocus;
  using Part = typename Reduction::Value;
};
template <Focused Reduction>
struct LeafTypes<Reduction> {
  using Focus = typename Reduction::Focus;
  using Part = typename Reduction::Part;
};
template <class Reduction>
using FocusOf = typename LeafTypes<Reduction>::Focus;
template <class Reduction>
using PartOf = typename LeafTypes<Reduction>::Part;

template <class Reduction>
constexpr typename Reduction::Value take_element(typename Reduction::Value value, typename Reduction::Input x,
                                                 int64_t index, const FocusOf<Reduction>& focus) {
  if constexpr (Focused<Reduction>) {
    return Reduction::take(value, x, index, focus);
  } else {
    return Reduction::take(value, x, index);
  }
}

template <class Reduction>
constexpr PartOf<Reduction> make_part(typename Reduction::Value value, const FocusOf<Reduction>& focus, int64_t count) {
  if constexpr (Focused<Reduction>) {
    return Reduction::part(value, focus, count);
  } else {
    return value;
  }
}

template <class Reduction>
inline constexpr bool has_neutral = requires { Reduction::neutral(); };

// The identity among lanes' values, or among leaves' parts.
template <class Reduction, class T>
constexpr T identity_of() {
  if constexpr (std::is_same_v<T, typename Reduction::Value>) {
    return Reduction::identity();
  } else {
    return Reduction::part_identity();
  }
}

}  // namespace gpureduce
