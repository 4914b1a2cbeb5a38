// Order-free reductions over whole 16-byte vectors: along them, for rows, and slot by slot, for columns. One-byte types
// leave a multiprocessor seven operations for each byte at the speed of memory, so sums and maxima work on packed words
// (docs/architecture.md).
#pragma once

#include "cuda/device.cuh"
#include "reductions/arg_extremum.h"
#include "reductions/count_nonzero.h"
#include "reductions/extremum.h"
#include "reductions/kernel_traits.h"
#include "reductions/prod.h"
#include "reductions/stats.h"
#include "reductions/sum.h"

namespace gpureduce::cuda {

template <class Element>
inline constexpr int kSlots = sizeof(uint4) / sizeof(Element);

// Element k of a vector.
template <class Input, class Element>
__device__ __forceinline__ Input slot(const uint4& vector, int k) {
  return element_of<Input, Element>(vector, k);
}

// A vector of elements that are passed over.
template <class Reduction, class Element>
__device__ __forceinline__ uint4 neutral_vector() {
  uint4 vector{};
  if constexpr (has_neutral<Reduction>) {
    Element elements[kSlots<Element>];
#pragma unroll
    for (int k = 0; k < kSlots<Element>; k++) elements[k] = Reduction::neutral();
    memcpy(&vector, elements, sizeof(vector));
  }
  return vector;
}

// The general form: element by element into one value. A specialisation offers the same three functions.
template <class Reduction, class Element>
struct Packed {
  using Value = typename Reduction::Value;
  Value value_so_far;

  __device__ __forceinline__ void begin() { value_so_far = Reduction::identity(); }
  __device__ __forceinline__ void take(const uint4& vector, unsigned v) {
#pragma unroll
    for (int k = 0; k < kSlots<Element>; k++) {
      value_so_far = Reduction::take(value_so_far, slot<typename Reduction::Input, Element>(vector, k),
                                     static_cast<int64_t>(v) * kSlots<Element> + k);
    }
  }
  __device__ __forceinline__ Value value(int64_t) const { return value_so_far; }
};

// 1 for every byte that is not zero: its low seven bits carry into the eighth, or the eighth is set already.
__device__ __forceinline__ uint32_t nonzero_bytes(uint32_t word) {
  return (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) >> 7 & 0x01010101u;
}

// ---- sums of integers

template <class Element>
__device__ __forceinline__ int64_t vector_sum(const uint4& vector) {
  const uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
  if constexpr (sizeof(Element) == 1) {
    constexpr uint32_t kOnes = 0x01010101u;
    std::conditional_t<std::is_signed_v<Element>, int, unsigned> sum = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      uint32_t word = words[i];
      if constexpr (std::is_same_v<Element, Bool>) word = nonzero_bytes(word);
      if constexpr (std::is_signed_v<Element>) {
        sum = __dp4a(static_cast<int>(word), static_cast<int>(kOnes), sum);
      } else {
        sum = __dp4a(word, kOnes, sum);
      }
    }
    return sum;
  } else if constexpr (sizeof(Element) == 2) {
    std::conditional_t<std::is_signed_v<Element>, int, unsigned> sum = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      if constexpr (std::is_signed_v<Element>) {
        sum = __dp2a_lo(static_cast<int>(words[i]), 0x0101, sum);
      } else {
        sum = __dp2a_lo(words[i], 0x0101u, sum);
      }
    }
    return sum;
  } else {
    int64_t sum = 0;
#pragma unroll
    for (int k = 0; k < kSlots<Element>; k++) {
      sum = Sum<Element>::merge(sum, slot<int64_t, Element>(vector, k));
    }
    return sum;
  }
}

template <class Element>
struct Packed<Sum<Element>, Element> {
  int64_t sum;

  __device__ __forceinline__ void begin() { sum = 0; }
  __device__ __forceinline__ void take(const uint4& vector, unsigned) {
    sum = Sum<Element>::merge(sum, vector_sum<Element>(vector));
  }
  __device__ __forceinline__ int64_t value(int64_t) const { return sum; }
};

// ---- counts of what is not zero

// How many of a vector's elements are not zero. Narrow ones by the word: below the top bit of an element any bit that
// is set carries into it when all ones are added. A small float's top bit is its sign, which a zero may have.
template <class Element>
__device__ __forceinline__ unsigned vector_count(const uint4& vector) {
  const uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
  unsigned count = 0;
  if constexpr (sizeof(Element) <= 2) {
    constexpr uint32_t kBelow = sizeof(Element) == 1 ? 0x7f7f7f7fu : 0x7fff7fffu;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      uint32_t top = (words[i] & kBelow) + kBelow;
      if constexpr (!is_small_float<Element>) top |= words[i];
      top &= ~kBelow;
      count = sizeof(Element) == 1 ? __dp4a(top, 0x01010101u, count) : __dp2a_lo(top, 0x0101u, count);
    }
    return count >> (8 * sizeof(Element) - 1);
  } else {
#pragma unroll
    for (int k = 0; k < kSlots<Element>; k++) {
      count += CountNonzero<Element>::is_nonzero(slot<typename CountNonzero<Element>::Input, Element>(vector, k));
    }
    return count;
  }
}

template <class Element>
struct Packed<CountNonzero<Element>, Element> {
  int64_t count;

  __device__ __forceinline__ void begin() { count = 0; }
  __device__ __forceinline__ void take(const uint4& vector, unsigned) { count += vector_count<Element>(vector); }
  __device__ __forceinline__ int64_t value(int64_t) const { return count; }
};

// ---- products of integers

// The product of a vector's elements: as many of them as fit are multiplied in 32 bits, and then in 64.
template <class Element>
__device__ __forceinline__ int64_t vector_product(const uint4& vector) {
  if constexpr (std::is_same_v<Element, Bool>) return vector_count<Element>(vector) == kSlots<Element>;
  constexpr int kTogether = sizeof(Element) >= 4 ? 1 : 4 / sizeof(Element);
  using Narrow = std::conditional_t<std::is_signed_v<Element>, int32_t, uint32_t>;
  using Part = std::conditional_t<sizeof(Element) >= 4, int64_t, Narrow>;
  int64_t product = 1;
#pragma unroll
  for (int k = 0; k < kSlots<Element>; k += kTogether) {
    Part part = slot<Part, Element>(vector, k);
#pragma unroll
    for (int j = 1; j < kTogether; j++) part *= slot<Part, Element>(vector, k + j);
    product = Prod<Element>::merge(product, part);
  }
  return product;
}

template <class Element>
  requires(!Prod<Element>::kOrdered)
struct Packed<Prod<Element>, Element> {
  int64_t product;

  __device__ __forceinline__ void begin() { product = 1; }
  __device__ __forceinline__ void take(const uint4& vector, unsigned) {
    product = Prod<Element>::merge(product, vector_product<Element>(vector));
  }
  __device__ __forceinline__ int64_t value(int64_t) const { return product; }
};

// ---- maxima and minima

// The winner of each of the two pairs of 16-bit elements that two words hold.
template <Extreme kExtreme>
__device__ __forceinline__ uint32_t winners(Half, uint32_t a, uint32_t b) {
  uint32_t result;
  if constexpr (kExtreme == Extreme::kLargest) {
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
}
template <Extreme kExtreme>
__device__ __forceinline__ uint32_t winners(BFloat16, uint32_t a, uint32_t b) {
  uint32_t result;
  if constexpr (kExtreme == Extreme::kLargest) {
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
}
// One instruction since compute capability 9.0, a few before it.
template <Extreme kExtreme>
__device__ __forceinline__ uint32_t winners(int16_t, uint32_t a, uint32_t b) {
  return kExtreme == Extreme::kLargest ? __vmaxs2(a, b) : __vmins2(a, b);
}
template <Extreme kExtreme>
__device__ __forceinline__ uint32_t winners(uint16_t, uint32_t a, uint32_t b) {
  return kExtreme == Extreme::kLargest ? __vmaxu2(a, b) : __vminu2(a, b);
}

// The winner among a vector's elements.
template <Extreme kExtreme, class Element>
__device__ __forceinline__ Comparable<Element> vector_winner(const uint4& vector) {
  using Value = Comparable<Element>;
  const uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
  if constexpr (std::is_same_v<Element, int8_t> || std::is_same_v<Element, uint8_t>) {
    // As pairs of 16-bit numbers, the odd bytes as they stand and the even ones shifted up: the byte below is noise
    // that can only decide between equals.
    const uint32_t flip = std::is_signed_v<Element> ? 0u : 0x80808080u;
    const auto bytes = [&](int i) {
      const uint32_t word = words[i] ^ flip;
      return winners<kExtreme>(int16_t{}, word, word << 8);
    };
    const uint32_t best = winners<kExtreme>(int16_t{}, winners<kExtreme>(int16_t{}, bytes(0), bytes(1)),
                                            winners<kExtreme>(int16_t{}, bytes(2), bytes(3)));
    const int high = static_cast<int32_t>(best) >> 24, low = static_cast<int32_t>(best << 16) >> 24;
    return winner<kExtreme>(high, low) + (std::is_signed_v<Element> ? 0 : 128);
  } else if constexpr (sizeof(Element) == 2) {
    const uint32_t best = winners<kExtreme>(Element{}, winners<kExtreme>(Element{}, words[0], words[1]),
                                            winners<kExtreme>(Element{}, words[2], words[3]));
    Element pair[2];
    memcpy(pair, &best, sizeof(best));
    return winner<kExtreme>(widen<Value>(pair[0]), widen<Value>(pair[1]));
  } else {
    Value best = slot<Value, Element>(vector, 0);
#pragma unroll
    for (int k = 1; k < kSlots<Element>; k++) best = winner<kExtreme>(best, slot<Value, Element>(vector, k));
    return best;
  }
}

template <Extreme kExtreme, class Element>
struct PackedExtremum {
  using Value = Comparable<Element>;
  Value best;

  __device__ __forceinline__ void begin() { best = weakest<kExtreme, Value>(); }
  __device__ __forceinline__ void take(const uint4& vector, unsigned) {
    best = winner<kExtreme>(best, vector_winner<kExtreme, Element>(vector));
  }
  __device__ __forceinline__ Value value(int64_t) const { return best; }
};
template <class Element>
struct Packed<Amax<Element>, Element> : PackedExtremum<Extreme::kLargest, Element> {};
template <class Element>
struct Packed<Amin<Element>, Element> : PackedExtremum<Extreme::kSmallest, Element> {};

template <class Element>
struct Packed<Aminmax<Element>, Element> {
  Packed<Amin<Element>, Element> smallest;
  Packed<Amax<Element>, Element> largest;

  __device__ __forceinline__ void begin() {
    smallest.begin();
    largest.begin();
  }
  __device__ __forceinline__ void take(const uint4& vector, unsigned v) {
    smallest.take(vector, v);
    largest.take(vector, v);
  }
  __device__ __forceinline__ typename Aminmax<Element>::Value value(int64_t) const {
    return {smallest.best, largest.best};
  }
};

// The best vector is kept whole and its slot found once, at the end: a comparison and a few moves for each vector,
// where an index for each element would cost that for each element.
template <Extreme kExtreme, class Element>
struct PackedArgExtremum {
  using Reduction = ArgExtremum<Element, kExtreme>;
  using Input = typename Reduction::Input;
  static constexpr unsigned kNowhere = ~0u;
  Input best;
  unsigned where;
  uint4 best_vector;

  __device__ __forceinline__ void begin() {
    best = weakest<kExtreme, Input>();
    where = kNowhere;
    best_vector = {};
  }
  __device__ __forceinline__ void take(const uint4& vector, unsigned v) {
    take(vector, v, vector_winner<kExtreme, Element>(vector));
  }
  __device__ __forceinline__ void take(const uint4& vector, unsigned v, Input candidate) {
    // Vectors come in increasing v, so that a tie stays with the first.
    const bool no_better = candidate == best || is_beyond<kExtreme>(best, candidate);
    if (where == kNowhere || (!no_better && !is_nan(best))) {
      best = candidate;
      where = v;
      best_vector = vector;
    }
  }
  __device__ __forceinline__ typename Reduction::Value value(int64_t first_index) const {
    if (where == kNowhere) return Reduction::identity();
    int found = 0;
#pragma unroll
    for (int k = kSlots<Element> - 1; k >= 0; k--) {
      const Input x = slot<Input, Element>(best_vector, k);
      if (x == best || is_nan(x)) found = k;
    }
    return {Reduction::key_of(best), first_index + static_cast<int64_t>(where) * kSlots<Element> + found};
  }
};
template <class Element>
struct Packed<Argmax<Element>, Element> : PackedArgExtremum<Extreme::kLargest, Element> {};
template <class Element>
struct Packed<Argmin<Element>, Element> : PackedArgExtremum<Extreme::kSmallest, Element> {};

// Numbers that are not finite are rare, and among the ends of their vector.
template <class Element>
struct Packed<Marks<Element>, Element> {
  using Input = typename Marks<Element>::Input;
  PackedArgExtremum<Extreme::kLargest, Element> largest;
  PackedArgExtremum<Extreme::kSmallest, Element> smallest;
  int64_t num_nan, num_inf;

  __device__ __forceinline__ void begin() {
    largest.begin();
    smallest.begin();
    num_nan = num_inf = 0;
  }
  __device__ __forceinline__ void take(const uint4& vector, unsigned v) {
    const Input high = vector_winner<Extreme::kLargest, Element>(vector);
    const Input low = vector_winner<Extreme::kSmallest, Element>(vector);
    largest.take(vector, v, high);
    smallest.take(vector, v, low);
    constexpr Input kInfinity = std::numeric_limits<Input>::infinity();
    if (high < kInfinity && low > -kInfinity) return;
#pragma unroll
    for (int k = 0; k < kSlots<Element>; k++) {
      const auto x = slot<Input, Element>(vector, k);
      num_nan += is_nan(x);
      num_inf += Marks<Element>::is_infinite(x);
    }
  }
  __device__ __forceinline__ typename Marks<Element>::Value value(int64_t first_index) const {
    return {largest.value(first_index), smallest.value(first_index), num_nan, num_inf};
  }
};

// ---- columns: a value for each slot of the vectors that a thread takes one after the other

// Vector number t is taken t-th, up to kMostPackedRows of them (reductions/kernel_traits.h). Values of reductions that
// look for a position have t for an index; `find_nan(slot)` is the t of the first NaN there.
template <class Reduction, class Element>
struct PackedColumns;

// Of `count` elements, `step` apart: which is the first NaN.
template <class Reduction, class Element>
__device__ __noinline__ int find_nan(const Element* element, int64_t step, int count) {
#pragma unroll 1
  for (int t = 0; t < count; t++, element += step) {
    if (is_nan(widen<typename Reduction::Input>(*element))) return t;
  }
  return count;
}

// Bytes are added in pairs of 16-bit sums, the even ones and the odd ones of each word, and these now and then in 32
// bits.
template <class Reduction, class Element>
  requires(packs_columns<Reduction, Element> && !finds_position<Reduction>)
struct PackedColumns<Reduction, Element> {
  static constexpr bool kCounts = std::is_same_v<Element, Bool> || is_count<Reduction>();
  static constexpr bool kSigned = !kCounts && std::is_signed_v<Element>;
  static constexpr int kMostNarrow = 256;  // 255 each
  uint32_t even[4], odd[4], sums[kSlots<Element>];
  int takes;

  __device__ __forceinline__ void begin() {
    takes = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) even[i] = odd[i] = 0;
#pragma unroll
    for (int k = 0; k < kSlots<Element>; k++) sums[k] = 0;
  }
  __device__ __forceinline__ void take(const uint4& vector, int) {
    const uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      uint32_t word = words[i];
      if constexpr (kCounts) word = nonzero_bytes(word);
      if constexpr (kSigned) word ^= 0x80808080u;  // plus 128
      even[i] += word & 0x00ff00ffu;
      odd[i] += word >> 8 & 0x00ff00ffu;
    }
    if (++takes % kMostNarrow == 0) widen_sums();
  }
  __device__ __forceinline__ void widen_sums() {
#pragma unroll
    for (int k = 0; k < kSlots<Element>; k++) sums[k] += narrow_sum(k);
#pragma unroll
    for (int i = 0; i < 4; i++) even[i] = odd[i] = 0;
  }
  __device__ __forceinline__ uint32_t narrow_sum(int slot) const {
    const uint32_t pair = slot % 2 == 0 ? even[slot / 4] : odd[slot / 4];
    return slot % 4 < 2 ? pair & 0xffffu : pair >> 16;
  }
  template <class FindNan>
  __device__ __forceinline__ int64_t value(int slot, FindNan) const {
    const int64_t sum = sums[slot] + narrow_sum(slot);
    return kSigned ? sum - int64_t{128} * takes : sum;
  }
};

// Whether each of the two 16-bit elements of `a` is beyond that of `b`: all bits or none.
template <Extreme kExtreme, class Element>
__device__ __forceinline__ uint32_t beyond(Element, uint32_t a, uint32_t b) {
  using Pair = std::conditional_t<std::is_same_v<Element, Half>, __half2, __nv_bfloat162>;
  Pair first, second;
  memcpy(&first, &a, sizeof(a));
  memcpy(&second, &b, sizeof(b));
  return kExtreme == Extreme::kLargest ? __hgt2_mask(first, second) : __hlt2_mask(first, second);
}

// The best of each slot and when it was taken, in 16 bits each. A NaN stays once it is met, and is looked for at the
// end.
template <class Reduction, class Element>
  requires(packs_columns<Reduction, Element> && finds_position<Reduction>)
struct PackedColumns<Reduction, Element> {
  uint32_t best[4], taken[4];

  __device__ __forceinline__ void begin() {
    const uint4 weakest = neutral_vector<Reduction, Element>();
    memcpy(best, &weakest, sizeof(best));
#pragma unroll
    for (int i = 0; i < 4; i++) taken[i] = 0;
  }
  __device__ __forceinline__ void take(const uint4& vector, int t) {
    const uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
    const uint32_t now = static_cast<uint32_t>(t) * 0x00010001u;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint32_t better = beyond<Reduction::kSide>(Element{}, words[i], best[i]);
      taken[i] = (taken[i] & ~better) | (now & better);
      best[i] = winners<Reduction::kSide>(Element{}, best[i], words[i]);
    }
  }
  template <class FindNan>
  __device__ __forceinline__ typename Reduction::Value value(int slot, FindNan find_nan) const {
    Element pair[2];
    memcpy(pair, &best[slot / 2], sizeof(pair));
    const auto x = widen<typename Reduction::Input>(pair[slot % 2]);
    const auto t = static_cast<int>(slot % 2 == 0 ? taken[slot / 2] & 0xffffu : taken[slot / 2] >> 16);
    return {Reduction::key_of(x), is_nan(x) ? find_nan(slot) : t};
  }
};

}  // namespace gpureduce::cuda
