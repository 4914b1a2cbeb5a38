#pragma once

#include "reductions/reduction.h"

namespace gpureduce {

template <class Element>
struct Sum {
  using Value = Accumulator<Element>;
  using Input = Value;
  using ReadAs = std::conditional_t<std::is_same_v<Element, uint64_t>, int64_t, Element>;  // wraps alike
  static constexpr bool kMeaningful = true;
  static constexpr bool kConverts = true;
  static constexpr bool kCommon = true;
  static constexpr bool kOrdered = !std::is_integral_v<Value>;

  // -0 + x is x for every x, and takes no instruction. A sum of nothing but -0 is +0: finish() sees to it.
  static constexpr Value identity() {
    if constexpr (is_complex<Value>) {
      return {-0.0, -0.0};
    } else if constexpr (std::is_integral_v<Value>) {
      return 0;
    } else {
      return -0.0;
    }
  }
  static constexpr auto neutral() { return as_element<Element>(Input(0)); }
  static constexpr Value take(Value sum, Input x, int64_t) { return merge(sum, x); }
  static constexpr Value merge(Value a, Value b) {
    if constexpr (std::is_integral_v<Value>) {
      return static_cast<Value>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));  // wraps, and is defined to
    } else {
      return a + b;
    }
  }
  static constexpr Value finish(Value sum, const FinishArguments& arguments) {
    const Value result = sum + Value(0);
    return arguments.how == Finish::kMean ? divide(result, arguments.num_elements) : result;
  }

 private:
  static constexpr Value divide(Value sum, int64_t count) {
    if constexpr (is_complex<Value>) {
      const auto by = static_cast<decltype(sum.re)>(count);
      return {sum.re / by, sum.im / by};
    } else if constexpr (std::is_integral_v<Value>) {
      return sum;  // never asked for: a mean is computed in floating point
    } else {
      return sum / static_cast<Value>(count);
    }
  }
};

}  // namespace gpureduce
