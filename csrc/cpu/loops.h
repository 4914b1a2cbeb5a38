// Passes over neighbouring values: all that is compiled for each instruction set. None allocates, none knows axes.
#pragma once

#include <array>
#include <cstdint>

#include "core/dtype.h"
#include "cpu/isa.h"

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
template <class Lane, class Source, class Focuses>
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
  if (first && rounds >= kRounds) {
    take.template operator()<kRounds, true>();
  } else if (first) {
    take.template operator()<1, true>();
  }
  while (rounds >= kRounds) take.template operator()<kRounds, false>();
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
template <class Reduction, class Value>
void fold_values(Value* values, int64_t count, int64_t width) {
  constexpr int64_t kLast = 16;
  const int64_t last = width == 1 ? kLast : 1;
  for (; count >= 4 * last; count /= 4) {
    const int64_t part = count / 4 * width;
    merge_quarters<Reduction>(values, values + part, values + 2 * part, values + 3 * part, part);
  }
  for (; count >= 2 * last; count /= 2) merge_values<Reduction>(values, values + count / 2 * width, count / 2 * width);
  if (count == kLast) {  // of known length, so that it stays in registers
    merge_values<Reduction>(values, values + 8, 8);
    merge_values<Reduction>(values, values + 4, 4);
    merge_values<Reduction>(values, values + 2, 2);
    merge_values<Reduction>(values, values + 1, 1);
    return;
  }
  for (; count > 1; count /= 2) merge_values<Reduction>(values, values + count / 2 * width, count / 2 * width);
}

// As take_rounds, from round `round` on.
template <class Lane, class Source>
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
  while (rounds >= kRounds) take.template operator()<kRounds, false>();
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

}  // namespace gpureduce::cpu
