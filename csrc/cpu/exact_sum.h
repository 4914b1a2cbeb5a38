// Sums of bytes that `dtype=` makes floats of, added up as integers: the same bits, as long as the floats are exact.
#pragma once

#include "cpu/walk.h"

namespace gpureduce {
namespace cpu {

// The sum of a leaf is an integer, and the leaves are combined as the floats are.
template <class Element, class Acc>
struct ExactSum {
  using Value = int64_t;
  using Input = Accumulator<Element>;
  using Part = Acc;
  static constexpr bool kOrdered = false;
  static constexpr bool kCommon = std::is_same_v<Acc, float>;

  static constexpr Value identity() { return 0; }
  static constexpr Part part_identity() { return 0; }
  static constexpr Value take(Value sum, Input x, int64_t) { return sum + x; }
  static constexpr Value merge(Value a, Value b) { return a + b; }
  static constexpr Part merge(Part a, Part b) { return a + b; }
  static constexpr Acc finish(Part sum, const FinishArguments& arguments) { return Sum<Acc>::finish(sum, arguments); }
};

}  // namespace cpu

template <class Element, class Acc>
struct LeafTypes<cpu::ExactSum<Element, Acc>> {
  using Focus = NoFocus;
  using Part = Acc;
};

namespace cpu {

template <class Element, class Acc>
struct PackedLane<ExactSum<Element, Acc>, Element> : PackedLane<Sum<Element>, Element> {};

// Whether a leaf's sum in Acc is its sum in integers, rounded once. What comes before a leaf's last addition is a sum
// of elements in half of its lanes: an integer that Acc holds if all of them together cannot pass its last odd one.
template <class Element, class Acc>
bool sums_are_exact(const Problem& problem) {
  constexpr int64_t kAllIntegers = int64_t{1} << std::numeric_limits<Acc>::digits;
  const Order order = make_order(problem.length, sizeof(Element), false);
  const int64_t longest = std::max(order.leaf_elements, order.leaf_length(order.num_leaves - 1, problem.length));
  const int64_t of_half = ceil_div(longest, order.lanes) * ceil_div(order.lanes, 2);
  return of_half <= kAllIntegers / PackedLane<Sum<Element>, Element>::kLargest;
}

// Runs the call if it is a sum of bytes in float32 or float64, and says whether it was.
inline bool run_exact_sum(const Call& call) {
  const auto run_for = [&]<class Element, class Acc>() {
    if (!sums_are_exact<Element, Acc>(call.problem)) return false;
    Walk<ExactSum<Element, Acc>, Element>(call).run();
    return true;
  };
  return dispatch_in_group<DTypeGroup::Int8s>(call.input_dtype, false, [&]<class Element>() {
    if (call.through == DType::kFloat32) return run_for.template operator()<Element, float>();
    if (call.through == DType::kFloat64) return run_for.template operator()<Element, double>();
    return false;
  });
}

}  // namespace cpu
}  // namespace gpureduce
