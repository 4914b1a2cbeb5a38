#pragma once

#include "core/dtype.h"

namespace gpureduce {

// A reduction is a struct template over the element type that offers what this one does:
//
//   Value           what a lane, a leaf and the result are kept in
//   Input           what take() is given: the element, widened
//   kMeaningful     false for element types the reduction has no meaning for
//   kConverts       whether `dtype=` exists, so that Converted elements are compiled too
//   kOrdered        the bits depend on the order of combination; false lets the kernels use any
//   identity(), take(value, x, index), merge(a, b)
//                   merge is commutative to the bit, and merge(identity, x) is x for every x that take() can give
//   finish(value, divisor)
//                   the result, still in the type that the output's dtype is rounded from
template <class Element>
struct Sum {
  using Value = Accumulator<Element>;
  using Input = Value;
  static constexpr bool kMeaningful = true;
  static constexpr bool kConverts = true;
  static constexpr bool kOrdered = !std::is_integral_v<Value>;

  static constexpr Value identity() { return Value(0); }
  static constexpr auto neutral() {
    if constexpr (is_converted<Element>) {
      return Input(0);
    } else {
      return Element{};
    }
  }
  static constexpr Value take(Value sum, Input x, int64_t) { return merge(sum, x); }
  static constexpr Value merge(Value a, Value b) {
    if constexpr (std::is_integral_v<Value>) {
      return static_cast<Value>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));  // wraps, and is defined to
    } else {
      return a + b;
    }
  }

  // The divisor is 1 for a sum (which changes no bit) and the number of elements for a mean.
  static constexpr Value finish(Value sum, double divisor) {
    if constexpr (is_complex<Value>) {
      const auto by = static_cast<decltype(sum.re)>(divisor);
      return {sum.re / by, sum.im / by};
    } else if constexpr (std::is_integral_v<Value>) {
      return sum;
    } else {
      return sum / static_cast<Value>(divisor);
    }
  }
};

}  // namespace gpureduce
