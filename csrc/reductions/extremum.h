// What amax and argmax have in common: which of two values wins.
#pragma once

#include <limits>

#include "core/dtype.h"

namespace gpureduce {

template <class T>
constexpr bool is_nan(T x) {
  return x != x;  // false for integers
}

template <class T>
constexpr T lowest() {
  if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
  return std::numeric_limits<T>::lowest();
}

// NaN wins over everything; -0 and +0 are equal.
template <class T>
constexpr bool beats(T a, T b) {
  return a > b || (is_nan(a) && !is_nan(b));
}

}  // namespace gpureduce
