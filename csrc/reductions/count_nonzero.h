#pragma once

#include "reductions/reduction.h"

namespace gpureduce {

// Of the dtypes in which an element is zero on the same bits, the one whose kernels count for all.
template <class Element>
struct SameZeros {
  using type = Element;
};
template <>
struct SameZeros<BFloat16> {
  using type = Half;
};
template <>
struct SameZeros<Float8E4M3> {
  using type = Float8E5M2;
};
template <class Integer>
  requires(std::is_integral_v<Integer> && sizeof(Integer) == 1)
struct SameZeros<Integer> {
  using type = Bool;
};
template <class Integer>
  requires(std::is_integral_v<Integer> && sizeof(Integer) > 1)
struct SameZeros<Integer> {
  using type = std::make_unsigned_t<Integer>;
};

template <class Element>
struct CountNonzero {
  static constexpr bool kMeaningful = true;
  static constexpr bool kConverts = false;
  static constexpr bool kOrdered = false;
  static constexpr bool kCounts = true;
  static constexpr bool kCommon = true;
  using Value = int64_t;
  using Input = Comparable<Element>;
  using ReadAs = typename SameZeros<Element>::type;

  static constexpr bool is_nonzero(Input x) {
    if constexpr (is_complex<Element>) {
      return (x.re != 0) | (x.im != 0);
    } else {
      return x != 0;
    }
  }

  static constexpr Value identity() { return 0; }
  static constexpr Element neutral() { return Element{}; }
  static constexpr Value take(Value count, Input x, int64_t) { return count + is_nonzero(x); }
  static constexpr Value merge(Value a, Value b) { return a + b; }
  static constexpr int64_t finish(Value count, const FinishArguments& arguments) {
    switch (arguments.how) {
      case Finish::kAny:
        return count != 0;
      case Finish::kAll:
        return count == arguments.num_elements;
      default:
        return count;
    }
  }
};

}  // namespace gpureduce
