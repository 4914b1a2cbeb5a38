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

// Every lane takes the elements that stand at its place in each of `kCount` rows, in order; `kFirst`: from the
// identity. The lanes are [groups][group] neighbours, the rows' indices are `round_step` apart.
template <class Lane, int kCount, bool kFirst, class Source>
void take_rows(typename Lane::Value* __restrict lanes, Rows<Source> rows, Indices indices, int64_t round_step) {
  for (int64_t g = 0; g < indices.groups; g++) {
    for (int64_t i = 0; i < indices.group; i++) {
      const int64_t at = g * indices.group + i;
      const int64_t index = indices.first + g * indices.group_step + i * indices.step;
      typename Lane::Value value = kFirst ? Lane::identity() : lanes[at];
      for (int row = 0; row < kCount; row++) value = Lane::take(value, rows[row][at], index + row * round_step);
      lanes[at] = value;
    }
  }
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
template <class Lane, class Source>
void take_pairs(typename Lane::Value* __restrict lanes, const Source* low, const Source* high, Indices indices,
                int64_t high_step) {
  for (int64_t g = 0; g < indices.groups; g++) {
    for (int64_t i = 0; i < indices.group; i++) {
      const int64_t at = g * indices.group + i;
      const int64_t index = indices.first + g * indices.group_step + i * indices.step;
      lanes[at] = Lane::merge(Lane::take(Lane::identity(), low[at], index),
                              Lane::take(Lane::identity(), high[at], index + high_step));
    }
  }
}

template <class Reduction, class Value>
void merge_values(Value* __restrict low, const Value* __restrict high, int64_t count) {
  for (int64_t i = 0; i < count; i++) low[i] = Reduction::merge(low[i], high[i]);
}

// Folds values[count][width] in halves down to values[width].
template <class Reduction, class Value>
void fold_values(Value* __restrict values, int64_t count, int64_t width) {
  constexpr int64_t kLast = 16;
  if (width == 1) {
    for (; count >= 8 * kLast; count /= 8) {  // three folds in one pass
      const int64_t part = count / 8;
      for (int64_t i = 0; i < part; i++) {
        Value fold[8];
        for (int k = 0; k < 8; k++) fold[k] = values[i + k * part];
        for (int half = 4; half >= 1; half /= 2) {
          for (int k = 0; k < half; k++) fold[k] = Reduction::merge(fold[k], fold[k + half]);
        }
        values[i] = fold[0];
      }
    }
    for (; count > kLast; count /= 2) {
      for (int64_t i = 0; i < count / 2; i++) values[i] = Reduction::merge(values[i], values[i + count / 2]);
    }
    if (count == kLast) {  // in registers
      Value fold[kLast];
      for (int k = 0; k < kLast; k++) fold[k] = values[k];
      for (int half = kLast / 2; half >= 1; half /= 2) {
        for (int k = 0; k < half; k++) fold[k] = Reduction::merge(fold[k], fold[k + half]);
      }
      values[0] = fold[0];
      return;
    }
  }
  for (int64_t half = count / 2; half >= 1; half /= 2) {
    Value* __restrict low = values;
    const Value* __restrict high = values + half * width;
    for (int64_t i = 0; i < half * width; i++) low[i] = Reduction::merge(low[i], high[i]);
  }
}

// As fold_values, for keys and their positions: the greater key, of equal ones the lower position.
template <class Key>
void fold_keys(Key* __restrict keys, Key* __restrict positions, int64_t count, int64_t width) {
  for (int64_t half = count / 2; half >= 1; half /= 2) {
    for (int64_t i = 0; i < half * width; i++) {
      const int64_t j = i + half * width;
      const bool other = (keys[j] > keys[i]) | ((keys[j] == keys[i]) & (positions[j] < positions[i]));
      keys[i] = other ? keys[j] : keys[i];
      positions[i] = other ? positions[j] : positions[i];
    }
  }
}

}  // namespace gpureduce::cpu
