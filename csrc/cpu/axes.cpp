#include "cpu/axes.h"

#include <algorithm>

namespace gpureduce::cpu {

Place place_of(const AxisList& axes, int64_t position) {
  Place place{0, 0};
  for (int a = axes.count - 1; a >= 0; a--) {
    const Axis& axis = axes[a];
    const int64_t at = a > 0 ? position % axis.size : position;
    place.offset += at * axis.stride;
    place.index += at * axis.place;
    position /= axis.size;
  }
  return place;
}

bool has_even_indices(const AxisList& axes) {
  for (int a = 0; a + 1 < axes.count; a++) {
    if (axes[a].place != axes[a + 1].place * axes[a + 1].size) return false;
  }
  return true;
}

AxisList in_logical_order(const AxisList& axes) {
  AxisList sorted;
  sorted.count = axes.count;
  std::copy_n(axes.axes.begin(), axes.count, sorted.axes.begin());
  std::stable_sort(sorted.axes.begin(), sorted.axes.begin() + sorted.count,
                   [](const Axis& a, const Axis& b) { return a.place > b.place; });
  return sorted;
}

}  // namespace gpureduce::cpu
