// What the kernels say to the hardware.
#pragma once

#include <cstdint>
#include <cstring>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "core/dtype.h"

namespace gpureduce::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kFullMask = ~0u;

// Launches overlap on Hopper: a kernel may start while the one before it in the stream drains. It must not touch memory
// before wait_for_previous_kernel(), and says itself when its successor may come.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// At once where blocks come in many waves or are few. A kernel of one wave does so when its blocks have read: blocks of
// the next one that wait on some multiprocessors would leave it unevenly spread.
__device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// 16 bytes that are read once: not kept in L1.
__device__ __forceinline__ uint4 load_streaming(const uint4* address) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
}

// The 16 bytes that start `bytes` (1 .. 15) into the 32 of `low` and `high`.
__device__ __forceinline__ uint4 shift_bytes(const uint4& low, const uint4& high, int bytes) {
  const bool two = bytes & 8, one = bytes & 4;
  uint32_t words[6];  // from the pair of words on that the result starts in
  words[0] = two ? low.z : low.x;
  words[1] = two ? low.w : low.y;
  words[2] = two ? high.x : low.z;
  words[3] = two ? high.y : low.w;
  words[4] = two ? high.z : high.x;
  words[5] = two ? high.w : high.y;
#pragma unroll
  for (int i = 0; i < 5; i++) words[i] = one ? words[i + 1] : words[i];
  const unsigned bits = 8 * (bytes & 3);
  return {__funnelshift_r(words[0], words[1], bits), __funnelshift_r(words[1], words[2], bits),
          __funnelshift_r(words[2], words[3], bits), __funnelshift_r(words[3], words[4], bits)};
}

// The two halves of a barrier of all threads of a cluster; shared memory written before the first is visible after the
// second.
__device__ __forceinline__ void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// The same shared variable in the first block of the cluster.
template <class T>
__device__ __forceinline__ T* in_first_block(T* shared) {
#if __CUDA_ARCH__ >= 900
  T* mapped;
  asm("mapa.u64 %0, %1, 0;" : "=l"(mapped) : "l"(shared));
  return mapped;
#else
  return shared;
#endif
}

// The caller's writes are visible to whoever draws a later ticket; the counter goes back to zero after `last`.
__device__ __forceinline__ unsigned draw_ticket(unsigned* counter, unsigned last) {
  unsigned ticket;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(ticket) : "l"(counter), "r"(last) : "memory");
  return ticket;
}

// Any trivially copyable value as 32-bit words (a smaller one fills the low part of its word).
template <class T>
struct Words {
  static constexpr int kCount = (sizeof(T) + 3) / 4;
  uint32_t words[kCount];

  __device__ __forceinline__ explicit Words(const T& value) {
    if constexpr (sizeof(T) % 4 != 0) words[kCount - 1] = 0;
    memcpy(words, &value, sizeof(T));
  }
  __device__ __forceinline__ T value() const {
    T result;
    memcpy(&result, words, sizeof(T));
    return result;
  }
};

template <class T>
__device__ __forceinline__ T shuffle_xor(const T& value, int distance) {
  Words<T> words(value);
#pragma unroll
  for (int i = 0; i < Words<T>::kCount; i++) words.words[i] = __shfl_xor_sync(kFullMask, words.words[i], distance);
  return words.value();
}

// A value in shared memory, which has no constructors.
template <class T>
struct Shared {
  alignas(T) unsigned char bytes[sizeof(T)];
  __device__ __forceinline__ void put(const T& value) { memcpy(bytes, &value, sizeof(T)); }
  __device__ __forceinline__ T get() const {
    T value;
    memcpy(&value, bytes, sizeof(T));
    return value;
  }
};

// From L2, where other blocks' writes are: never from a stale L1 line.
template <class T>
__device__ __forceinline__ T load_shared_by_blocks(const T* address) {
  using Word = std::conditional_t<sizeof(T) % 16 == 0, uint4, std::conditional_t<sizeof(T) % 8 == 0, uint2, uint32_t>>;
  static_assert(sizeof(T) % sizeof(Word) == 0);
  Word words[sizeof(T) / sizeof(Word)];
#pragma unroll
  for (size_t i = 0; i < sizeof(T) / sizeof(Word); i++) words[i] = __ldcg(reinterpret_cast<const Word*>(address) + i);
  T value;
  memcpy(&value, words, sizeof(value));
  return value;
}

// An element as the type a reduction takes it in. Exact, so the hardware's conversions and convert() agree.
template <class Input, class Element>
__device__ __forceinline__ Input widen(Element x) {
  if constexpr (std::is_same_v<Element, Half>) {
    return convert<Input>(__half2float(__ushort_as_half(x.bits)));
  } else if constexpr (std::is_same_v<Element, Float8E4M3> || std::is_same_v<Element, Float8E5M2>) {
    const auto kind = std::is_same_v<Element, Float8E4M3> ? __NV_E4M3 : __NV_E5M2;
    return convert<Input>(__half2float(__half(__nv_cvt_fp8_to_halfraw(x.bits, kind))));
  } else {
    return convert<Input>(x);
  }
}

// A result as an element of the output: to_element(), with the hardware's conversions where they round alike.
template <class Element, class Result>
__device__ __forceinline__ Element narrow(Result x) {
  if constexpr (std::is_same_v<Result, float> && std::is_same_v<Element, Half>) {
    return {x != x ? static_cast<uint16_t>(kHalfFormat.nan) : __half_as_ushort(__float2half_rn(x))};
  } else if constexpr (std::is_same_v<Result, float> && std::is_same_v<Element, BFloat16>) {
    return {x != x ? uint16_t{0x7fc0} : __bfloat16_as_ushort(__float2bfloat16_rn(x))};
  } else {
    return to_element<Element>(x);
  }
}

}  // namespace gpureduce::cuda
