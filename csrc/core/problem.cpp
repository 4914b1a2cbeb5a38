#include "core/problem.h"

#include <algorithm>

namespace gpureduce {
namespace {

void push(AxisList& list, Axis axis) {
  if (axis.size != 1) list.axes[list.count++] = axis;
}

// Stable: equal strides keep the order of their dims, as the order of combination asks.
void sort_and_merge(AxisList& list, bool merge_by_place) {
  if (list.count < 2) return;  // a sort allocates
  const auto begin = list.axes.begin();
  std::stable_sort(begin, begin + list.count, [](const Axis& a, const Axis& b) { return a.stride > b.stride; });
  int last = 0;
  for (int i = 1; i < list.count; i++) {
    Axis& outer = list.axes[last];
    const Axis& inner = list.axes[i];
    const bool walks_on = outer.stride == inner.stride * inner.size;
    if (walks_on && (!merge_by_place || outer.place == inner.place * inner.size)) {
      outer = {outer.size * inner.size, inner.stride, inner.place};
    } else {
      list.axes[++last] = inner;
    }
  }
  list.count = last + 1;
}

}  // namespace

int64_t span_elements(const Problem& problem) {
  if (problem.num_outputs == 0 || problem.length == 0) return 0;
  int64_t last = 0;
  for (const AxisList* list : {&problem.kept, &problem.reduced}) {
    for (int i = 0; i < list->count; i++) last += (list->axes[i].size - 1) * list->axes[i].stride;
  }
  return last + 1;
}

Problem make_problem(int num_dims, const int64_t* sizes, const int64_t* strides, const std::bitset<kMaxDims>& reduced,
                     int element_bytes, bool indexed) {
  Problem problem;
  problem.element_bytes = element_bytes;
  for (int d = num_dims - 1; d >= 0; d--) {
    int64_t& total = reduced[d] ? problem.length : problem.num_outputs;
    push(reduced[d] ? problem.reduced : problem.kept, {sizes[d], strides[d], total});
    total *= sizes[d];
  }
  if (problem.num_outputs == 0 || problem.length == 0) {
    // Nothing to walk: one axis of outputs to fill, and no element.
    problem.kept.count = problem.reduced.count = 0;
    push(problem.kept, {problem.num_outputs, 0, 1});
    return problem;
  }
  std::reverse(problem.kept.axes.begin(), problem.kept.axes.begin() + problem.kept.count);
  std::reverse(problem.reduced.axes.begin(), problem.reduced.axes.begin() + problem.reduced.count);
  sort_and_merge(problem.kept, true);
  sort_and_merge(problem.reduced, indexed);
  if (!indexed) {
    // Nobody asks where an element stands, so its place is its number in the walk.
    int64_t place = 1;
    for (int i = problem.reduced.count - 1; i >= 0; i--) {
      problem.reduced.axes[i].place = place;
      place *= problem.reduced.axes[i].size;
    }
  }
  return problem;
}

}  // namespace gpureduce
