// The dtypes as a run-time value, and the way from that value to an element type.
#pragma once

#include <cstddef>
#include <utility>

#include "core/elements.h"

namespace gpureduce {

enum class DType : uint8_t {
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kFloat8E4M3,
  kFloat8E5M2,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kBool,
  kComplex64,
  kComplex128,
};
inline constexpr int kNumDTypes = 17;

// Calls f.template operator()<Element>() with the element type of `dtype`.
template <class F>
constexpr decltype(auto) dispatch(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat16:
      return f.template operator()<Half>();
    case DType::kBFloat16:
      return f.template operator()<BFloat16>();
    case DType::kFloat32:
      return f.template operator()<float>();
    case DType::kFloat64:
      return f.template operator()<double>();
    case DType::kFloat8E4M3:
      return f.template operator()<Float8E4M3>();
    case DType::kFloat8E5M2:
      return f.template operator()<Float8E5M2>();
    case DType::kInt8:
      return f.template operator()<int8_t>();
    case DType::kInt16:
      return f.template operator()<int16_t>();
    case DType::kInt32:
      return f.template operator()<int32_t>();
    case DType::kInt64:
      return f.template operator()<int64_t>();
    case DType::kUInt8:
      return f.template operator()<uint8_t>();
    case DType::kUInt16:
      return f.template operator()<uint16_t>();
    case DType::kUInt32:
      return f.template operator()<uint32_t>();
    case DType::kUInt64:
      return f.template operator()<uint64_t>();
    case DType::kBool:
      return f.template operator()<Bool>();
    case DType::kComplex64:
      return f.template operator()<Complex<float>>();
    case DType::kComplex128:
      break;
  }
  return f.template operator()<Complex<double>>();
}

constexpr int size_of(DType dtype) {
  return dispatch(dtype, [&]<class T>() { return static_cast<int>(sizeof(T)); });
}
constexpr bool is_complex_dtype(DType dtype) {
  return dispatch(dtype, [&]<class T>() { return is_complex<T>; });
}
constexpr bool is_float_dtype(DType dtype) {
  return dispatch(dtype, [&]<class T>() { return is_small_float<T> || std::is_floating_point_v<T>; });
}
constexpr bool is_integral_dtype(DType dtype) {  // bool included
  return !is_float_dtype(dtype) && !is_complex_dtype(dtype);
}

// The type that sums of T are kept in.
template <class T>
struct AccumulatorOf {
  using type = std::conditional_t<is_complex<T> || std::is_same_v<T, double>, T,
                                  std::conditional_t<is_small_float<T> || std::is_same_v<T, float>, float, int64_t>>;
};
template <class T>
using Accumulator = typename AccumulatorOf<T>::type;

// The narrowest type with built-in arithmetic that holds every T: what maxima are compared in.
template <class T>
using Comparable = std::conditional_t<
    is_small_float<T>, float,
    std::conditional_t<std::is_same_v<T, Bool> || (std::is_integral_v<T> && sizeof(T) < 4), int32_t, T>>;

// An element whose dtype is known at run time only, converted to `dtype=` and then to the accumulator as it is read.
template <class Acc>
struct Converted {
  static_assert(std::is_same_v<Acc, Accumulator<Acc>>);
};
template <class Acc>
struct AccumulatorOf<Converted<Acc>> {
  using type = Acc;
};

template <class Element>
inline constexpr bool is_converted = false;
template <class Acc>
inline constexpr bool is_converted<Converted<Acc>> = true;

// Element `offset` of `base`, which holds `from`, rounded to `through` and widened to Acc.
template <class Acc>
constexpr Acc read_converted(const void* base, int64_t offset, DType from, DType through) {
  // One carrier that holds every element exactly keeps this at 17 + 17 cases where 17 x 17 would bloat each kernel.
  struct {
    double re = 0, im = 0;
    int64_t integer = 0;
    bool is_integer = false, is_unsigned = false;
  } carrier;
  dispatch(from, [&]<class From>() {
    const From x = static_cast<const From*>(base)[offset];
    if constexpr (is_complex<From>) {
      carrier.re = x.re;
      carrier.im = x.im;
    } else if constexpr (is_small_float<From> || std::is_floating_point_v<From>) {
      carrier.re = convert<double>(x);
    } else {
      carrier.integer = convert<int64_t>(x);
      carrier.is_integer = true;
      carrier.is_unsigned = std::is_same_v<From, uint64_t>;
    }
  });
  return dispatch(through, [&]<class Through>() -> Acc {
    if constexpr (std::is_same_v<Accumulator<Through>, Acc>) {
      if (carrier.is_integer) {
        return carrier.is_unsigned ? convert<Acc>(convert<Through>(static_cast<uint64_t>(carrier.integer)))
                                   : convert<Acc>(convert<Through>(carrier.integer));
      }
      return convert<Acc>(convert<Through>(Complex<double>{carrier.re, carrier.im}));
    } else {
      return Acc(0);  // never asked for: `through` picks Acc
    }
  });
}

// Whether a sum of `from` elements can be had without converting each to `to` first: the accumulator is the same and
// the conversion changes no value (or, among integers, only bits that the sum modulo 2^n loses anyway).
constexpr bool sums_as_is(DType from, DType to) {
  return from == to || dispatch(from, [&]<class From>() {
           return dispatch(to, [&]<class To>() {
             if constexpr (!std::is_same_v<Accumulator<From>, Accumulator<To>>) return false;
             if constexpr (std::is_integral_v<Accumulator<From>>) return !std::is_same_v<To, Bool>;
             return sizeof(From) < sizeof(To);
           });
         });
}

// The result of a reduction as an element of the output: rounded once, and every NaN the same NaN (the payloads that
// CPUs and GPUs make up differ).
template <class Element, class Result>
constexpr Element to_element(Result x) {
  if constexpr (is_complex<Result>) {
    using Real = decltype(x.re);
    constexpr Real nan = std::numeric_limits<Real>::quiet_NaN();
    return convert<Element>(Result{x.re != x.re ? nan : x.re, x.im != x.im ? nan : x.im});
  } else if constexpr (std::is_floating_point_v<Result>) {
    return convert<Element>(x != x ? std::numeric_limits<Result>::quiet_NaN() : x);
  } else {
    return convert<Element>(x);
  }
}

// Dtypes that are compiled together, one source file for each reduction and group.
enum class DTypeGroup : uint8_t { Float16s, Float8s, Floats, Int8s, Int16s, Int32s, Int64s, Complexes, Converted };

// Calls f.template operator()<Element>() for the member of `Group` that `dtype` is; for Converted, `dtype` is what the
// elements are converted to. Returns `otherwise` where the group has no such member.
template <DTypeGroup Group, class Result, class F>
constexpr Result dispatch_in_group(DType dtype, Result otherwise, F&& f) {
  auto pick = [&]<class... Elements>() {
    Result result = otherwise;
    dispatch(dtype, [&]<class T>() {
      if constexpr ((std::is_same_v<T, Elements> || ...)) result = f.template operator()<T>();
    });
    return result;
  };
  if constexpr (Group == DTypeGroup::Float16s) return pick.template operator()<Half, BFloat16>();
  if constexpr (Group == DTypeGroup::Float8s) return pick.template operator()<Float8E4M3, Float8E5M2>();
  if constexpr (Group == DTypeGroup::Floats) return pick.template operator()<float, double>();
  if constexpr (Group == DTypeGroup::Int8s) return pick.template operator()<int8_t, uint8_t, Bool>();
  if constexpr (Group == DTypeGroup::Int16s) return pick.template operator()<int16_t, uint16_t>();
  if constexpr (Group == DTypeGroup::Int32s) return pick.template operator()<int32_t, uint32_t>();
  if constexpr (Group == DTypeGroup::Int64s) return pick.template operator()<int64_t, uint64_t>();
  if constexpr (Group == DTypeGroup::Complexes) {
    return pick.template operator()<Complex<float>, Complex<double>>();
  }
  if constexpr (Group == DTypeGroup::Converted) {
    return dispatch(dtype, [&]<class T>() { return f.template operator()<Converted<Accumulator<T>>>(); });
  }
}

constexpr DTypeGroup group_of(DType dtype) {
  return dispatch(dtype, [&]<class T>() {
    if constexpr (is_complex<T>) return DTypeGroup::Complexes;
    if constexpr (is_small_float<T>) return sizeof(T) == 2 ? DTypeGroup::Float16s : DTypeGroup::Float8s;
    if constexpr (std::is_floating_point_v<T>) return DTypeGroup::Floats;
    constexpr DTypeGroup by_size[] = {DTypeGroup::Int8s, DTypeGroup::Int16s, DTypeGroup::Int32s, DTypeGroup::Int64s};
    return by_size[std::bit_width(sizeof(T)) - 1];
  });
}

}  // namespace gpureduce
