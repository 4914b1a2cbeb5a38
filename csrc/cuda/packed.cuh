// Order-free reductions over whole 16-byte vectors. One-byte types leave a multiprocessor seven operations for each
// byte at the speed of memory, so sums and maxima work on packed words (docs/architecture.md).
#pragma once

#include "cuda/device.cuh"
#include "reductions/amax.h"
#include "reductions/argmax.h"
#include "reductions/sum.h"

namespace gpureduce::cuda {

template <class Element>
inline constexpr int kSlots = sizeof(uint4) / sizeof(Element);

// Element k of a vector.
template <class Input, class Element>
__device__ __forceinline__ Input slot(const uint4& vector, int k) {
  Element elements[kSlots<Element>];
  memcpy(elements, &vector, sizeof(vector));
  return widen<Input>(elements[k]);
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
      if constexpr (std::is_same_v<Element, Bool>) {
        // 1 for every non-zero byte: its low seven bits carry into the eighth, or the eighth is set already.
        word = (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) >> 7 & kOnes;
      }
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

// ---- maxima

__device__ __forceinline__ uint32_t max_of_pairs(Half, uint32_t a, uint32_t b) {
  uint32_t result;
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}
__device__ __forceinline__ uint32_t max_of_pairs(BFloat16, uint32_t a, uint32_t b) {
  uint32_t result;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}
__device__ __forceinline__ uint32_t max_of_pairs(int16_t, uint32_t a, uint32_t b) {
#if __CUDA_ARCH__ >= 900
  uint32_t result;
  asm("max.s16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
#else
  return __vmaxs2(a, b);
#endif
}
__device__ __forceinline__ uint32_t max_of_pairs(uint16_t, uint32_t a, uint32_t b) {
#if __CUDA_ARCH__ >= 900
  uint32_t result;
  asm("max.u16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
#else
  return __vmaxu2(a, b);
#endif
}

// The largest of a vector's elements.
template <class Element>
__device__ __forceinline__ Comparable<Element> vector_max(const uint4& vector) {
  using Value = Comparable<Element>;
  const uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
  if constexpr (std::is_same_v<Element, int8_t> || std::is_same_v<Element, uint8_t>) {
    // As pairs of 16-bit numbers, the odd bytes as they stand and the even ones shifted up: the byte below is noise
    // that can only decide between equals.
    const uint32_t flip = std::is_signed_v<Element> ? 0u : 0x80808080u;
    const auto bytes = [&](int i) {
      const uint32_t word = words[i] ^ flip;
      return max_of_pairs(int16_t{}, word, word << 8);
    };
    const uint32_t best = max_of_pairs(int16_t{}, max_of_pairs(int16_t{}, bytes(0), bytes(1)),
                                       max_of_pairs(int16_t{}, bytes(2), bytes(3)));
    const int high = static_cast<int32_t>(best) >> 24, low = static_cast<int32_t>(best << 16) >> 24;
    return max(high, low) + (std::is_signed_v<Element> ? 0 : 128);
  } else if constexpr (sizeof(Element) == 2) {
    const uint32_t best = max_of_pairs(Element{}, max_of_pairs(Element{}, words[0], words[1]),
                                       max_of_pairs(Element{}, words[2], words[3]));
    Element pair[2];
    memcpy(pair, &best, sizeof(best));
    return larger(widen<Value>(pair[0]), widen<Value>(pair[1]));
  } else {
    Value best = slot<Value, Element>(vector, 0);
#pragma unroll
    for (int k = 1; k < kSlots<Element>; k++) best = larger(best, slot<Value, Element>(vector, k));
    return best;
  }
}

template <class Element>
struct Packed<Amax<Element>, Element> {
  using Value = Comparable<Element>;
  Value best;

  __device__ __forceinline__ void begin() { best = Amax<Element>::identity(); }
  __device__ __forceinline__ void take(const uint4& vector, unsigned) {
    best = larger(best, vector_max<Element>(vector));
  }
  __device__ __forceinline__ Value value(int64_t) const { return best; }
};

// The best vector is kept whole and its slot found once, at the end: a comparison and a few moves for each vector,
// where an index for each element would cost that for each element.
template <class Element>
struct Packed<Argmax<Element>, Element> {
  using Input = typename Argmax<Element>::Input;
  static constexpr unsigned kNowhere = ~0u;
  Input best;
  unsigned where;
  uint4 best_vector;

  __device__ __forceinline__ void begin() {
    best = lowest<Input>();
    where = kNowhere;
    best_vector = {};
  }
  __device__ __forceinline__ void take(const uint4& vector, unsigned v) {
    const Input candidate = vector_max<Element>(vector);
    // Vectors come in increasing v, so that a tie stays with the first.
    if (where == kNowhere || (!(candidate <= best) && !is_nan(best))) {
      best = candidate;
      where = v;
      best_vector = vector;
    }
  }
  __device__ __forceinline__ typename Argmax<Element>::Value value(int64_t first_index) const {
    if (where == kNowhere) return Argmax<Element>::identity();
    int found = 0;
#pragma unroll
    for (int k = kSlots<Element> - 1; k >= 0; k--) {
      const Input x = slot<Input, Element>(best_vector, k);
      if (x == best || is_nan(x)) found = k;
    }
    return {order_key(best), first_index + static_cast<int64_t>(where) * kSlots<Element> + found};
  }
};

}  // namespace gpureduce::cuda
