// Rows into columns, in squares of 16-byte vectors.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/order.h"

namespace gpureduce::cpu {

// What an element of `kBytes` is moved as.
struct LongWord {
  uint64_t halves[2];
};
template <int kBytes>
using Word = std::conditional_t<
    kBytes == 1, uint8_t,
    std::conditional_t<kBytes == 2, uint16_t,
                       std::conditional_t<kBytes == 4, uint32_t, std::conditional_t<kBytes == 8, uint64_t, LongWord>>>>;

template <class W>
struct Vector {
  static constexpr int kBytes = 16;
  static constexpr int kSize = kBytes / sizeof(W);
  typedef W Type [[gnu::vector_size(kBytes)]];
};

// Words of a and b in turn: the first halves of both (`kHalf` 0), or the second ones.
template <class W, int kHalf, std::size_t... kIndex>
typename Vector<W>::Type interleave(typename Vector<W>::Type a, typename Vector<W>::Type b,
                                    std::index_sequence<kIndex...>) {
  constexpr int kSize = Vector<W>::kSize;
  return __builtin_shufflevector(a, b, (kHalf * kSize / 2 + kIndex / 2 + kIndex % 2 * kSize)...);
}

// Interleaving rows that are half the square apart, as often as it halves, leaves columns.
template <class W, int kStages>
void interleave_rows(typename Vector<W>::Type* rows) {
  if constexpr (kStages > 0) {
    constexpr int kSize = Vector<W>::kSize;
    typename Vector<W>::Type next[kSize];
#pragma GCC unroll 8
    for (int r = 0; r < kSize / 2; r++) {
      next[2 * r] = interleave<W, 0>(rows[r], rows[r + kSize / 2], std::make_index_sequence<kSize>());
      next[2 * r + 1] = interleave<W, 1>(rows[r], rows[r + kSize / 2], std::make_index_sequence<kSize>());
    }
    interleave_rows<W, kStages - 1>(next);
#pragma GCC unroll 16
    for (int r = 0; r < kSize; r++) rows[r] = next[r];
  }
}

// A square of rows, `row_step` apart, into the first `num_columns` of its columns, `column_step` apart.
template <class W>
void transpose_square(W* columns, int64_t column_step, const W* rows, int64_t row_step, int64_t num_columns) {
  using V = Vector<W>;
  typename V::Type square[V::kSize];
#pragma GCC unroll 16
  for (int r = 0; r < V::kSize; r++) std::memcpy(&square[r], rows + r * row_step, V::kBytes);
  interleave_rows<W, log2_of(V::kSize)>(square);
#pragma GCC unroll 16
  for (int c = 0; c < V::kSize; c++) {  // all of them, so that the square stays in registers
    if (c < num_columns) std::memcpy(columns + c * column_step, &square[c], V::kBytes);
  }
}

// The elements are of other types than words: they are moved as bytes.
template <class W>
void move_word(W* to, const W* from) {
  std::memcpy(to, from, sizeof(W));
}

// columns[c][r] = rows[r * kColumns + c], for rows much shorter than a vector.
template <int kColumns, class W>
void transpose_narrow(W* __restrict columns, const W* __restrict rows, int64_t num_rows) {
  for (int64_t r = 0; r < num_rows; r++) {
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; c++) move_word(columns + c * num_rows + r, rows + r * kColumns + c);
  }
}

// The same without gaps between rows of two or three elements; false where there is no loop for it.
template <class W>
bool transpose_narrow(W* columns, const W* rows, int64_t num_rows, int64_t num_columns) {
  if constexpr (sizeof(W) <= sizeof(uint64_t)) {
    if (num_columns == 2) transpose_narrow<2>(columns, rows, num_rows);
    if (num_columns == 3) transpose_narrow<3>(columns, rows, num_rows);
    return num_columns == 2 || num_columns == 3;
  }
  return false;
}

// columns[c][r] = rows[r * row_step + c]
template <class W>
void transpose_words(W* __restrict columns, const W* __restrict rows, int64_t row_step, int64_t num_rows,
                     int64_t num_columns) {
  if (row_step == num_columns && transpose_narrow(columns, rows, num_rows, num_columns)) return;
  int64_t r = 0;
  if constexpr (sizeof(W) <= sizeof(uint64_t)) {
    constexpr int64_t kSize = Vector<W>::kSize;
    // The last vector of a row may reach past it, but not past the last row.
    const int64_t end = (num_rows - 1) * row_step + num_columns;
    const int64_t reach = (kSize - 1) * row_step + ceil_div(num_columns, kSize) * kSize;
    for (; r + kSize <= num_rows && r * row_step + reach <= end; r += kSize) {
      for (int64_t c = 0; c < num_columns; c += kSize) {
        transpose_square(columns + c * num_rows + r, num_rows, rows + r * row_step + c, row_step,
                         num_columns - c < kSize ? num_columns - c : kSize);
      }
    }
  }
  for (; r < num_rows; r++) {
    for (int64_t c = 0; c < num_columns; c++) move_word(columns + c * num_rows + r, rows + r * row_step + c);
  }
}

}  // namespace gpureduce::cpu
