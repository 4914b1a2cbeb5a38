#include "cpu/copy.h"

#include "cpu/convert.h"
#include "cpu/transpose.h"

namespace gpureduce::cpu {
namespace {

// Calls f.template operator()<kBytes>() for the size of an element.
template <class F>
void dispatch_bytes(int64_t bytes, F f) {
  switch (bytes) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 4:
      return f.template operator()<4>();
    case 8:
      return f.template operator()<8>();
    default:
      return f.template operator()<16>();
  }
}

// target = the elements as Through, widened to Acc
template <class Through, class Acc>
void copy_through(Isa isa, Acc* target, const void* base, int64_t offset, DType from, const Grid& grid) {
  if constexpr (is_small_float<Through>) {  // whatever becomes one is a float32 first (core/elements.h)
    copy_through<Acc>(isa, target, base, offset, from, grid);
    run_on<false>(isa, [=]<Isa kIsa>() {
      for (int64_t i = 0; i < grid.rows * grid.columns; i++) target[i] = to_float(convert<Through>(target[i]));
    });
  } else {
    dispatch(from, [&]<class From>() {
      const From* source = static_cast<const From*>(base) + offset;
      if constexpr (converts_in_vectors<Through, From>) {
        if (grid.step == 1) {
          run_on<false>(isa, [=]<Isa kIsa>() {
            for (int64_t r = 0; r < grid.rows; r++) {
              convert_neighbours<kIsa>(target + r * grid.columns, source + r * grid.row_step, grid.columns);
            }
          });
          return;
        }
      }
      for (int64_t r = 0; r < grid.rows; r++) {
        Acc* __restrict to = target + r * grid.columns;
        const From* row = source + r * grid.row_step;
        for (int64_t c = 0; c < grid.columns; c++) to[c] = convert<Acc>(convert<Through>(row[c * grid.step]));
      }
    });
  }
}

}  // namespace

void copy(void* target, const void* source, int64_t element_bytes, const Grid& grid) {
  dispatch_bytes(element_bytes, [&]<int kBytes>() {
    auto* to = static_cast<std::byte*>(target);
    const auto* from = static_cast<const std::byte*>(source);
    for (int64_t r = 0; r < grid.rows; r++) {
      if (grid.step == 1) {
        std::memcpy(to, from, grid.columns * kBytes);
      } else {
        for (int64_t c = 0; c < grid.columns; c++) std::memcpy(to + c * kBytes, from + c * grid.step * kBytes, kBytes);
      }
      to += grid.columns * kBytes;
      from += grid.row_step * kBytes;
    }
  });
}

template <class Acc>
void copy_converted(Isa isa, Acc* target, const void* base, int64_t offset, DType from, DType through,
                    const Grid& grid) {
  dispatch(through, [&]<class Through>() {
    if constexpr (std::is_same_v<Accumulator<Through>, Acc>) {
      copy_through<Through>(isa, target, base, offset, from, grid);
    }
  });
}

template void copy_converted(Isa, float*, const void*, int64_t, DType, DType, const Grid&);
template void copy_converted(Isa, double*, const void*, int64_t, DType, DType, const Grid&);
template void copy_converted(Isa, int64_t*, const void*, int64_t, DType, DType, const Grid&);
template void copy_converted(Isa, Complex<float>*, const void*, int64_t, DType, DType, const Grid&);
template void copy_converted(Isa, Complex<double>*, const void*, int64_t, DType, DType, const Grid&);

void transpose(Isa isa, void* columns, const void* rows, int64_t element_bytes, int64_t row_step, int64_t num_rows,
               int64_t num_columns) {
  dispatch_bytes(element_bytes, [&]<int kBytes>() {
    using W = Word<kBytes>;
    auto* to = static_cast<W*>(columns);
    const auto* from = static_cast<const W*>(rows);
    run_on<true>(isa, [=]<Isa kIsa>() { transpose_words(to, from, row_step, num_rows, num_columns); });
  });
}

}  // namespace gpureduce::cpu
