#pragma once

#include "reductions/reduction.h"

namespace gpureduce {

template <class Element>
struct Prod {
  using Value = Accumulator<Element>;
  using Input = Value;
  using ReadAs = std::conditional_t<std::is_same_v<Element, uint64_t>, int64_t, Element>;  // wraps alike
  static constexpr bool kMeaningful = true;
  static constexpr bool kConverts = true;
  static constexpr bool kOrdered = !std::is_integral_v<Value>;

  static constexpr Value identity() { return Value(1); }
  static constexpr auto neutral() { return as_element<Element>(Input(1)); }
  static constexpr Value take(Value product, Input x, int64_t) { return merge(product, x); }
  static constexpr Value merge(Value a, Value b) {
    if constexpr (std::is_integral_v<Value>) {
      return static_cast<Value>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));  // wraps, and is defined to
    } else if constexpr (is_complex<Value>) {
      // (1 + 0i) * (inf + 0i) would be NaN, and an identity must not change what it meets.
      if (is_one(a)) return b;
      if (is_one(b)) return a;
      return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    } else {
      return a * b;
    }
  }
  static constexpr Value finish(Value product, const FinishArguments&) { return product; }

 private:
  // Exactly 1 + 0i: 1 - 0i is another number, and which of the two is met first must not matter.
  static constexpr bool is_one(Value x) {
    using Bits = std::conditional_t<sizeof(x.im) == 4, uint32_t, uint64_t>;
    return x.re == 1 && std::bit_cast<Bits>(x.im) == 0;
  }
};

}  // namespace gpureduce
