// What a reduction is, and what the kernels, the loops and the ops ask of one.
//
// A reduction is a struct template over the element type that offers what Sum (sum.h) does:
//
//   Value           what a lane, a leaf and the result are kept in
//   Input           what take() is given: the element, widened. The CPU reads float8 as float16, so that a reduction of
//                   floats must not tell these types apart by anything but their Input
//   kMeaningful     false for element types the reduction has no meaning for
//   kConverts       whether `dtype=` exists, so that Converted elements are compiled too
//   kOrdered        the bits depend on the order of combination; false lets the kernels use any
//   identity(), take(value, x, index), merge(a, b)
//                   merge is commutative to the bit, and merge(identity, x) is x for every x that take() can give
//   finish(value, FinishArguments)
//                   the result, still in the type that the output's dtype is rounded from; a std::tuple of results
//                   where there are several outputs, of which a call may leave some out
//
// and, where it is not like most, any of
//
//   kIndexed = true     take() is told where the element stands
//   kWideLane = true    a lane holds more than one word: half as many of them (core/order.h)
//   kCommon = true      many calls are of it, so that it has all kernels (kernel_traits.h)
//   kCounts = true      the result is an int64 count, rounded to int64, uint8, bool or, of floats, as a norm is
//   ReadAs              another element type whose kernels give the same results on the same bytes, and are used
//                       instead
//   take_in_turn(value, x, index)
//                       with kIndexed: take() of an element that stands behind all that the value has taken
//   neutral()           an Element (for Converted ones: an Input) that take() passes over wherever it stands behind
//                       real elements, so that kernels may fill up whole vectors with it
//   Focus               what take() measures elements against; every leaf has its own, so that all who walk it agree:
//     kSamples            how many of a leaf's first elements it is made of at first, 1 if not said
//     focus(samples, FinishArguments)
//                                     of these, a Samples<Reduction>; of a shorter leaf the last one several times
//     take(value, x, index, focus)
//     refocus(focus, value, count, FinishArguments)
//                                     whether the leaf has to be walked once more, with a focus that suits it better;
//                                     sees the fold of the leaf's `count` elements
//   OfLanes, OfThread   the reductions that its Value {of lanes, of thread} is made of, where only the first depends on
//                       the order, so that a thread needs but one value of the second
//   Part                with a Focus: the value of a leaf and of the result,
//     part(value, focus, count, FinishArguments), merge(part, part), part_identity(), and finish() of it
//
// A Focus has no say in how elements are combined, only in what is added up for each; the order stays core/order.h's.
#pragma once

#include <array>
#include <tuple>
#include <utility>

#include "core/dtype.h"

namespace gpureduce {

// Ops that share a reduction differ in how they finish.
enum class Finish : uint8_t {
  kValue,
  kMean,  // of a sum: divided by the number of elements
  kAny,   // of a count: 1 where it is not 0
  kAll,   // of a count: 1 where it is the number of elements
  kVar,   // of moments: the variance, and the mean
  kStd,   // of moments: its root, and the mean
};

struct FinishArguments {
  int64_t num_elements;
  Finish how;
  double parameter;    // the order of a norm; of a variance 1 / (number of elements - torch's `correction`)
  double per_element;  // 1 / num_elements
  // Of all leaves but the last, for variances on a GPU, where a division takes long; 0 where nobody says.
  int64_t leaf_elements = 0;
  double per_leaf_element = 0;
};

struct Output {
  void* data = nullptr;  // null: not asked for
  DType dtype = DType::kFloat32;
};
inline constexpr int kMaxOutputs = 10;
using Outputs = std::array<Output, kMaxOutputs>;

// Whether a reduction is compiled for an element type.
template <template <class> class Reduction, class Element>
inline constexpr bool is_compiled =
    Reduction<Element>::kMeaningful && (Reduction<Element>::kConverts || !is_converted<Element>);

template <class Reduction>
constexpr bool is_indexed() {
  if constexpr (requires { Reduction::kIndexed; }) return Reduction::kIndexed;
  return false;
}
template <class Reduction>
constexpr bool has_wide_lanes() {
  if constexpr (requires { Reduction::kWideLane; }) return Reduction::kWideLane;
  return false;
}
template <class Reduction>
constexpr bool is_common() {
  if constexpr (requires { Reduction::kCommon; }) return Reduction::kCommon;
  return false;
}
template <class Reduction>
constexpr bool is_count() {
  if constexpr (requires { Reduction::kCounts; }) return Reduction::kCounts;
  return false;
}

// Whether a reduction looks for a position: of the greatest key the one with the lowest index.
template <class Reduction>
inline constexpr bool finds_position = requires(typename Reduction::Value value) {
  value.key;
  value.index;
};

template <class Reduction>
concept Focused = requires { typename Reduction::Focus; };

template <class Reduction>
concept Joined = requires { typename Reduction::OfThread; };

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
constexpr int num_samples() {
  if constexpr (requires { Reduction::kSamples; }) return Reduction::kSamples;
  return 1;
}
template <class Reduction>
using Samples = std::array<typename Reduction::Input, num_samples<Reduction>()>;

// What a leaf is measured against at first; element(i) is sample number i, as take() is given it.
template <class Reduction, class ElementAt>
constexpr FocusOf<Reduction> first_focus(const FinishArguments& arguments, ElementAt element) {
  return [&]<int... kIndices>(std::integer_sequence<int, kIndices...>) {
    return Reduction::focus(Samples<Reduction>{element(kIndices)...}, arguments);
  }(std::make_integer_sequence<int, num_samples<Reduction>()>());
}

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
constexpr PartOf<Reduction> make_part(typename Reduction::Value value, const FocusOf<Reduction>& focus, int64_t count,
                                      const FinishArguments& arguments) {
  if constexpr (Focused<Reduction>) {
    return Reduction::part(value, focus, count, arguments);
  } else {
    return value;
  }
}

// The identity among lanes' values, or among leaves' parts.
template <class Reduction, class T>
constexpr T identity_of() {
  if constexpr (std::is_same_v<T, typename Reduction::Value>) {
    return Reduction::identity();
  } else {
    return Reduction::part_identity();
  }
}

template <class Reduction>
inline constexpr bool has_neutral = requires { Reduction::neutral(); };

// `value` as an Element, or as the Input of converted elements.
template <class Element, class Input>
constexpr auto as_element(Input value) {
  if constexpr (is_converted<Element>) {
    return value;
  } else {
    return convert<Element>(value);
  }
}

// The element type whose kernels serve Element.
template <class Reduction, class Element>
struct ReadAsOf {
  using type = Element;
};
template <class Reduction, class Element>
  requires requires { typename Reduction::ReadAs; }
struct ReadAsOf<Reduction, Element> {
  using type = typename Reduction::ReadAs;
};
template <template <class> class Reduction, class Element>
using ReadAs = typename ReadAsOf<Reduction<Element>, Element>::type;

// How many element types of a group a reduction has kernels of its own for.
template <template <class> class Reduction, DTypeGroup Group>
constexpr int num_kernels() {
  int count = 0;
  const auto add = [&]<class Element>() {
    if constexpr (is_compiled<Reduction, Element>) count += std::is_same_v<Element, ReadAs<Reduction, Element>>;
    return 0;
  };
  if constexpr (Group == DTypeGroup::Converted) {
    for (const DType accumulator :
         {DType::kFloat32, DType::kFloat64, DType::kInt64, DType::kComplex64, DType::kComplex128}) {
      dispatch_in_group<Group>(accumulator, 0, add);
    }
  } else {
    for (int dtype = 0; dtype < kNumDTypes; dtype++) dispatch_in_group<Group>(static_cast<DType>(dtype), 0, add);
  }
  return count;
}
template <template <class> class Reduction, DTypeGroup Group>
constexpr bool has_kernels() {
  return num_kernels<Reduction, Group>() > 0;
}

// ---- results

template <class Result>
struct ResultsOf {
  static constexpr int kCount = 1;
  template <int kIndex>
  static constexpr Result get(const Result& result) {
    return result;
  }
};
template <class... Results>
struct ResultsOf<std::tuple<Results...>> {
  static constexpr int kCount = sizeof...(Results);
  template <int kIndex>
  static constexpr auto get(const std::tuple<Results...>& results) {
    return std::get<kIndex>(results);
  }
};

// What output number kIndex is rounded from.
template <class Reduction, int kIndex, class Value>
constexpr auto finish(const Value& value, const FinishArguments& arguments) {
  const auto results = Reduction::finish(value, arguments);
  return ResultsOf<std::remove_const_t<decltype(results)>>::template get<kIndex>(results);
}

// How many results a reduction has. Value is what finish() is given.
template <class Reduction, class Value>
inline constexpr int num_results =
    ResultsOf<decltype(Reduction::finish(std::declval<Value>(), std::declval<FinishArguments>()))>::kCount;

// What an output may be rounded from: an op picks the reduction by the output's dtype, so that no other pairs meet.
template <class Out, class Result>
inline constexpr bool is_rounded_from =
    std::is_same_v<Accumulator<Out>, Result> || std::is_same_v<Comparable<Out>, Result>;
template <class Out, class Result>
inline constexpr bool is_rounded_from_count = std::is_same_v<Result, int64_t> && !is_complex<Out>;

template <class Reduction>
struct ElementOf;
template <template <class> class Reduction, class Element>
struct ElementOf<Reduction<Element>> {
  using type = Element;
};

// Whether a result goes into integers of any size: sums of integers. Of two that differ in the sign, which take the
// same bits, the signed one stands for both.
template <class Reduction, class Result>
constexpr bool serves_all_integers() {
  using Element = typename ElementOf<Reduction>::type;
  return std::is_integral_v<Result> && Reduction::kConverts && !is_converted<Element>;
}
constexpr DType as_signed(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return DType::kInt8;
    case DType::kUInt16:
      return DType::kInt16;
    case DType::kUInt32:
      return DType::kInt32;
    case DType::kUInt64:
      return DType::kInt64;
    default:
      return dtype;
  }
}

// What a reduction over elements of one type is rounded to. Where `dtype=` has them rounded first they are Converted
// (sums_as_is()); positions are int64; counts are that, bool or uint8, and floating point where they are norms.
template <class Reduction, class Out, class Result>
constexpr bool is_output() {
  using Element = typename ElementOf<Reduction>::type;
  if constexpr (is_count<Reduction>()) {
    constexpr bool kIsFloat = is_small_float<Out> || std::is_floating_point_v<Out>;
    if (kIsFloat)
      return std::is_floating_point_v<RealOf<Accumulator<Element>>> && sizeof(Out) >= sizeof(RealOf<Element>);
    return std::is_same_v<Out, int64_t> || std::is_same_v<Out, uint8_t> || std::is_same_v<Out, Bool>;
  } else if constexpr (is_converted<Element> || !is_rounded_from<Out, Result>) {
    return is_rounded_from<Out, Result>;
  } else if constexpr (serves_all_integers<Reduction, Result>()) {
    return !std::is_unsigned_v<Out> && (!std::is_same_v<Out, Bool> || std::is_same_v<Element, Bool>);
  } else if constexpr (std::is_integral_v<Result>) {
    return std::is_same_v<Out, Element> || std::is_same_v<Out, int64_t>;
  } else {
    return std::is_same_v<RealOf<Out>, RealOf<Element>> || sizeof(RealOf<Out>) > sizeof(RealOf<Element>);
  }
}

// Calls f.template operator()<kIndex, Out>(data) for each output that is asked for, Out being its element type. Value
// is what finish() is given.
template <class Reduction, class Value, class F>
constexpr void for_each_output(const Outputs& outputs, F&& f) {
  constexpr int kCount = num_results<Reduction, Value>;
  static_assert(kCount <= kMaxOutputs);
  const auto visit = [&]<int kIndex>() {
    using Result = decltype(finish<Reduction, kIndex>(std::declval<Value>(), std::declval<FinishArguments>()));
    const Output& output = outputs[kIndex];
    if (output.data == nullptr) return;
    const DType dtype = serves_all_integers<Reduction, Result>() ? as_signed(output.dtype) : output.dtype;
    dispatch(dtype, [&]<class Out>() {
      if constexpr (is_output<Reduction, Out, Result>()) {
        f.template operator()<kIndex, Out>(output.data);
      }
    });
  };
  [&]<int... kIndices>(std::integer_sequence<int, kIndices...>) {
    (visit.template operator()<kIndices>(), ...);
  }(std::make_integer_sequence<int, kCount>());
}

}  // namespace gpureduce
