// Passes over neighbouring values: all that is compiled for each instruction set. None allocates, none knows axes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "core/order.h"
#include "cpu/extremes.h"
#include "cpu/isa.h"
#include "reductions/reduction.h"

namespace gpureduce::cpu {

// Rounds that one pass takes: the lanes are loaded and stored once for as many elements.
inline constexpr int kRounds = 4;

template <class Source>
using Rows = std::array<const Source*, kRounds>;

// Indices of the elements of a row: [groups][group], a step from group to group and one within.
struct Indices {
  int64_t first, groups, group, group_step, step;
};

// What lanes measure their elements against (reductions/reduction.h): all against the same, or each against its own.
template <class Focus>
struct SharedFocus {
  Focus focus;
  constexpr const Focus& operator[](int64_t) const { return focus; }
};
template <class Focus>
struct EachFocus {
  const Focus* focuses;
  constexpr const Focus& operator[](int64_t lane) const { return focuses[lane]; }
};

// Every lane takes the elements that stand at its place in each of `kCount` rows, in order; `kFirst`: from the
// identity. The lanes are [groups][group] neighbours, the rows' indices are `round_step` apart.
template <class Lane, int kCount, bool kFirst, class Source, class Focuses>
void take_rows(typename Lane::Value* __restrict lanes, Rows<Source> rows, Focuses focuses, Indices indices,
               int64_t round_step) {
  for (int64_t g = 0; g < indices.groups; g++) {
    for (int64_t i = 0; i < indices.group; i++) {
      const int64_t at = g * indices.group + i;
      const int64_t index = indices.first + g * indices.group_step + i * indices.step;
      typename Lane::Value value = kFirst ? Lane::identity() : lanes[at];
      for (int row = 0; row < kCount; row++) {
        value = Lane::take(value, rows[row][at], index + row * round_step, focuses[at]);
      }
      lanes[at] = value;
    }
  }
}

// `rounds` of them, a row every `row_step` elements; `first`: the lanes start from the identity.
template <Isa kIsa, class Lane, class Source, class Focuses>
void take_rounds(typename Lane::Value* lanes, const Source* rows, int64_t row_step, int64_t rounds, bool first,
                 Focuses focuses, Indices indices, int64_t round_step) {
  const auto take = [&]<int kCount, bool kFirst>() {
    Rows<Source> next{};
    for (int row = 0; row < kCount; row++) next[row] = rows + row * row_step;
    take_rows<Lane, kCount, kFirst>(lanes, next, focuses, indices, round_step);
    rows += kCount * row_step;
    rounds -= kCount;
    indices.first += kCount * round_step;
  };
  if constexpr (has_all_forms<kIsa>) {
    if (first && rounds >= kRounds) {
      take.template operator()<kRounds, true>();
    } else if (first) {
      take.template operator()<1, true>();
    }
    while (rounds >= kRounds) take.template operator()<kRounds, false>();
  } else if (first) {
    std::fill_n(lanes, indices.groups * indices.group, Lane::identity());
  }
  while (rounds > 0) take.template operator()<1, false>();
}

// As take_rows, for lanes that are one key and the round it was met in. Of equal keys the earlier round stays.
template <class Lane, int kCount, bool kFirst, class Source>
void take_keys(typename Lane::Key* __restrict keys, typename Lane::Key* __restrict rounds, Rows<Source> rows,
               int64_t count, int64_t first_round) {
  using Key = typename Lane::Key;
  for (int64_t i = 0; i < count; i++) {
    Key key = kFirst ? Lane::key(rows[0][i]) : keys[i];
    Key round = kFirst ? Key(0) : rounds[i];
    for (int row = kFirst; row < kCount; row++) {
      const Key other = Lane::key(rows[row][i]);
      const bool later = other > key;
      key = later ? other : key;
      round = later ? static_cast<Key>(first_round + row) : round;
    }
    keys[i] = key;
    rounds[i] = round;
  }
}

// The first fold of a tree: lanes[i] = merge of two lanes that take one element each.
template <class Lane, class Source, class Focuses>
void take_pairs(typename Lane::Value* __restrict lanes, const Source* low, const Source* high, Focuses focuses,
                Indices indices, int64_t high_step) {
  for (int64_t g = 0; g < indices.groups; g++) {
    for (int64_t i = 0; i < indices.group; i++) {
      const int64_t at = g * indices.group + i;
      const int64_t index = indices.first + g * indices.group_step + i * indices.step;
      lanes[at] = Lane::merge(Lane::take(Lane::identity(), low[at], index, focuses[at]),
                              Lane::take(Lane::identity(), high[at], index + high_step, focuses[at]));
    }
  }
}

// One fold in halves: low[i] = merge of low[i] and high[i].
template <class Reduction, class Value>
void merge_values(Value* __restrict low, const Value* __restrict high, int64_t count) {
  for (int64_t i = 0; i < count; i++) low[i] = Reduction::merge(low[i], high[i]);
}

// Two folds in halves in one pass.
template <class Reduction, class Value>
void merge_quarters(Value* __restrict a, const Value* __restrict b, const Value* __restrict c,
                    const Value* __restrict d, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    a[i] = Reduction::merge(Reduction::merge(a[i], c[i]), Reduction::merge(b[i], d[i]));
  }
}

// Folds values[count][width] in halves down to values[width].
template <Isa kIsa, class Reduction, class Value>
void fold_values(Value* values, int64_t count, int64_t width) {
  if constexpr (has_all_forms<kIsa>) {
    constexpr int64_t kLast = 16;
    const int64_t last = width == 1 ? kLast : 1;
    for (; count >= 4 * last; count /= 4) {
      const int64_t part = count / 4 * width;
      merge_quarters<Reduction>(values, values + part, values + 2 * part, values + 3 * part, part);
    }
    if (width == 1 && count >= kLast) {
      if (count == 2 * kLast) merge_values<Reduction>(values, values + kLast, kLast);
      // of known length, so that it stays in registers
      merge_values<Reduction>(values, values + 8, 8);
      merge_values<Reduction>(values, values + 4, 4);
      merge_values<Reduction>(values, values + 2, 2);
      merge_values<Reduction>(values, values + 1, 1);
      return;
    }
  }
  for (; count > 1; count /= 2) merge_values<Reduction>(values, values + count / 2 * width, count / 2 * width);
}

// As take_rounds, from round `round` on.
template <Isa kIsa, class Lane, class Source>
void take_key_rounds(typename Lane::Key* keys, typename Lane::Key* met, const Source* rows, int64_t row_step,
                     int64_t rounds, int64_t count, int64_t round) {
  const auto take = [&]<int kCount, bool kFirst>() {
    Rows<Source> next{};
    for (int row = 0; row < kCount; row++) next[row] = rows + row * row_step;
    take_keys<Lane, kCount, kFirst>(keys, met, next, count, round);
    rows += kCount * row_step;
    rounds -= kCount;
    round += kCount;
  };
  if (round == 0) take.template operator()<1, true>();
  if constexpr (has_all_forms<kIsa>) {
    while (rounds >= kRounds) take.template operator()<kRounds, false>();
  }
  while (rounds > 0) take.template operator()<1, false>();
}

// Where the keys of some rounds stood: position of lane i = (first round + round) * lanes + first lane + i * step.
struct Met {
  int64_t first_round, lanes, first_lane, step;
};

// Keeps, of the keys so far and those of later rounds, the greater one and its position; `first`: there are none so
// far.
template <class Key, class Narrow>
void keep_keys(Key* __restrict keys, Key* __restrict positions, const Narrow* __restrict narrow,
               const Narrow* __restrict rounds, int64_t count, Met met, bool first) {
  const auto base = static_cast<Key>(met.first_round * met.lanes + met.first_lane);
  const auto lanes = static_cast<Key>(met.lanes), step = static_cast<Key>(met.step);
  for (int64_t i = 0; i < count; i++) {
    const Key key = narrow[i];
    const Key position = base + static_cast<Key>(rounds[i]) * lanes + static_cast<Key>(i) * step;
    const bool better = first | (key > keys[i]);
    keys[i] = better ? key : keys[i];
    positions[i] = better ? position : positions[i];
  }
}

// One fold in halves of keys and their positions: the greater key, of equal ones the lower position.
template <class Key>
void merge_keys(Key* __restrict keys, Key* __restrict positions, const Key* __restrict other_keys,
                const Key* __restrict other_positions, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const bool equal_before = (other_keys[i] == keys[i]) & (other_positions[i] < positions[i]);
    const bool other = (other_keys[i] > keys[i]) | equal_before;
    keys[i] = other ? other_keys[i] : keys[i];
    positions[i] = other ? other_positions[i] : positions[i];
  }
}

template <class Key>
void fold_keys(Key* keys, Key* positions, int64_t count, int64_t width) {
  for (; count > 1; count /= 2) {
    const int64_t half = count / 2 * width;
    merge_keys(keys, positions, keys + half, positions + half, half);
  }
}

// ---- a leaf of rows whose elements are neighbours

template <class Source>
struct RowLeaves {
  const Source* first;
  int64_t row_step, num_rows;
  int64_t length, num_lanes;
  int64_t index, index_step;  // of the elements of every row
  bool streams;               // they come from memory, not from a cache

  const Source* operator[](int64_t row) const { return first + row * row_step; }
  int64_t bytes() const { return length * static_cast<int64_t>(sizeof(Source)); }
  // Rows of less than a page are over before hardware has learnt to read ahead: the next but one is asked for.
  void read_ahead(int64_t row) const {
    constexpr int64_t kPageBytes = 4096, kLine = 64 / sizeof(Source);
    if (!streams || bytes() > kPageBytes) return;
    const Source* next = (*this)[row + 2];
    for (int64_t i = 0; i < length; i += kLine) __builtin_prefetch(next + i);
  }
};

// All lanes of `length` elements, that of the last round cut short.
template <Isa kIsa, class Lane, class Source, class Focuses>
void take_leaf(typename Lane::Value* lanes, int64_t num_lanes, const Source* elements, int64_t length, Focuses focuses,
               int64_t index, int64_t index_step) {
  const int64_t rounds = length >> log2_of(num_lanes), done = rounds * num_lanes;
  if (rounds == 0) {
    std::fill_n(lanes, num_lanes, Lane::identity());
  } else {
    take_rounds<kIsa, Lane>(lanes, elements, num_lanes, rounds, true, focuses, {index, 1, num_lanes, 0, index_step},
                            num_lanes * index_step);
  }
  take_rows<Lane, 1, false>(lanes, Rows<Source>{elements + done}, focuses,
                            {index + done * index_step, 1, length - done, 0, index_step}, 0);
}

// Lanes and leaves in the order of combination.
template <Isa kIsa, class Reduction, class Lane, class Source>
void walk_rows_in_order(RowLeaves<Source> leaves, typename Reduction::Value* lanes, PartOf<Reduction>* parts,
                        const FinishArguments& arguments) {
  using Focus = FocusOf<Reduction>;
  for (int64_t row = 0; row < leaves.num_rows; row++) {
    const auto walk = [&](const Focus& focus) {
      take_leaf<kIsa, Lane>(lanes, leaves.num_lanes, leaves[row], leaves.length, SharedFocus<Focus>{focus},
                            leaves.index, leaves.index_step);
      fold_values<kIsa, Reduction>(lanes, leaves.num_lanes, 1);
    };
    if constexpr (Focused<Reduction>) {
      Focus focus = first_focus<Reduction>(arguments, [&](int i) {
        return convert<typename Reduction::Input>(leaves[row][std::min<int64_t>(i, leaves.length - 1)]);
      });
      do {
        walk(focus);
      } while (Reduction::refocus(focus, lanes[0], leaves.length, arguments));
      parts[row] = make_part<Reduction>(lanes[0], focus, leaves.length, arguments);
    } else {
      walk({});
      parts[row] = lanes[0];
    }
  }
}

// Packed lanes, folded as far as they hold what comes together, then widened to the reduction's own values.
template <Isa kIsa, class Reduction, class Lane, class Source>
void walk_rows_in_any_order(RowLeaves<Source> leaves, typename Lane::Value* lanes, typename Reduction::Value* wide,
                            PartOf<Reduction>* parts) {
  constexpr SharedFocus<NoFocus> kNoFocus{};
  for (int64_t row = 0; row < leaves.num_rows; row++) {
    int64_t num_wide = 0;
    for (int64_t done = 0; done < leaves.length;) {
      const int64_t left = leaves.length - done;
      const bool all = (left - 1) >> log2_of(leaves.num_lanes) < Lane::kMaxRounds;
      const int64_t chunk = all ? left : Lane::kMaxRounds * leaves.num_lanes;
      take_leaf<kIsa, Lane>(lanes, leaves.num_lanes, leaves[row] + done, chunk, kNoFocus, 0, 0);
      int64_t count = leaves.num_lanes;
      if constexpr (Lane::kMaxRounds == std::numeric_limits<int64_t>::max()) {
        fold_values<kIsa, Lane>(lanes, count, 1);
        count = 1;
      } else {
        for (int64_t held = ceil_div(chunk, count); count > 1 && 2 * held <= Lane::kMaxRounds; held *= 2) {
          count /= 2;
          merge_values<Lane>(lanes, lanes + count, count);
        }
      }
      for (int64_t i = 0; i < count; i++) {
        const auto value = Lane::widen(lanes[i]);
        wide[i] = i < num_wide ? Reduction::merge(wide[i], value) : value;
      }
      num_wide = std::max(num_wide, count);
      done += chunk;
    }
    fold_values<kIsa, Reduction>(wide, num_wide, 1);
    parts[row] = wide[0];
  }
}

// Extremes, with their positions where the reduction has them. Only the first piece that holds the extreme is searched,
// at the end, so that the order of the values does not decide the time.
template <class Reduction, class Source>
void find_in_rows(RowLeaves<Source> leaves, typename Reduction::Value* values) {
  using Search = ExtremeSearch<Reduction, Source>;
  for (int64_t row = 0; row < leaves.num_rows; row++) {
    leaves.read_ahead(row);
    if constexpr (finds_position<Reduction>) {
      constexpr int64_t kPiece = 4096 / sizeof(Source);
      const auto count_from = [&](int64_t start) { return std::min(kPiece, leaves.length - start); };
      int64_t found_from = 0;
      auto best = Search::value(leaves[row], count_from(0));
      for (int64_t start = kPiece; start < leaves.length; start += kPiece) {
        const auto value = Search::value(leaves[row] + start, count_from(start));
        const bool better = Reduction::key_of(value) > Reduction::key_of(best);
        best = better ? value : best;
        found_from = better ? start : found_from;
      }
      const int64_t first =
          found_from + Extremes<Source>::first(leaves[row] + found_from, count_from(found_from), best);
      values[row] = {Reduction::key_of(best), leaves.index + first * leaves.index_step};
    } else {
      values[row] = Search::value(leaves[row], leaves.length);
    }
  }
}

}  // namespace gpureduce::cpu
