// Elements brought to where a pass reads them as neighbours: copied, transposed, converted. Compiled once for each size
// or type of element, whatever is reduced of them.
#pragma once

#include "core/dtype.h"
#include "cpu/isa.h"

namespace gpureduce::cpu {

// Where elements lie: `rows` of them `row_step` apart, the `columns` of each `step` apart.
struct Grid {
  int64_t rows, row_step, columns, step;
};

// Both write the elements of a grid to `target` as neighbours, row after row.
void copy(void* target, const void* source, int64_t element_bytes, const Grid& grid);
// The first element is number `offset` of `base`, which holds `from`. Each is rounded to `through` and widened to Acc,
// the accumulator of `through`.
template <class Acc>
void copy_converted(Isa isa, Acc* target, const void* base, int64_t offset, DType from, DType through,
                    const Grid& grid);

// columns[c][r] = element c of row r
void transpose(Isa isa, void* columns, const void* rows, int64_t element_bytes, int64_t row_step, int64_t num_rows,
               int64_t num_columns);

}  // namespace gpureduce::cpu
