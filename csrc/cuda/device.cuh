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

// Rounded down. A division by a power of two that is an argument takes forty instructions, a shift one.
__device__ __forceinline__ int log2_on_device(int x) {
  return 31 - __clz(x);
}

// Launches overlap on Hopper: a kernel may start while the one before it in the stream drains. It must not touch memory
// before wait_for_previous_kernel(), which is over at once when it is called again, and says itself when its successor
// may come.
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

// Before wait_for_previous_kernel(): what will be read first is on its way to the L2 cache while the kernel in front
// ends. It is not read too early: whatever that one still writes arrives in the same place.
__device__ __forceinline__ void prefetch([[maybe_unused]] const void* address) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}
// The same by one thread for `bytes` that follow one another, in whole vectors.
__device__ __forceinline__ void prefetch([[maybe_unused]] const void* first, [[maybe_unused]] int64_t bytes) {
#if __CUDA_ARCH__ >= 900
  constexpr uintptr_t kVectorMask = sizeof(uint4) - 1;
  const auto whole = static_cast<uint32_t>(bytes & ~static_cast<int64_t>(kVectorMask));
  if (whole == 0) return;
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(reinterpret_cast<uintptr_t>(first) & ~kVectorMask),
               "r"(whole));
#endif
}

// What is read once: not kept in L1. Said to be global memory, since an address that was rounded down to a vector no
// longer tells.
__device__ __forceinline__ uint4 load_streaming(const uint4* address) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
}
__device__ __forceinline__ uint2 load_streaming(const uint2* address) {
  uint2 v;
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(address));
  return v;
}
__device__ __forceinline__ uint32_t load_streaming(const uint32_t* address) {
  uint32_t v;
  asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(address));
  return v;
}

// The vector at `elements`, of which only `begin` .. `end` may be read: the others are nobody's, and taken from `rest`.
// All are asked for before any is waited for. Rare, so it is kept out of the loops that call it.
template <class Element, class Vector>
__device__ __noinline__ Vector load_some(const Element* elements, int begin, int end, Vector rest) {
  constexpr int kCount = sizeof(Vector) / sizeof(Element);
  Element loaded[kCount];
  memcpy(loaded, &rest, sizeof(rest));
#pragma unroll
  for (int k = 0; k < kCount; k++) {
    if (k >= begin && k < end) loaded[k] = elements[k];
  }
  Vector vector;
  memcpy(&vector, loaded, sizeof(vector));
  return vector;
}

// The same for the first `count` elements of an aligned vector, without a call.
template <class Element>
__device__ __forceinline__ uint4 load_front(const Element* elements, int count) {
  const auto* memory = reinterpret_cast<const unsigned char*>(elements);
  const int bytes = count * static_cast<int>(sizeof(Element));
  uint64_t of_8 = 0;
  uint32_t of_4 = 0, of_2 = 0, of_1 = 0;
  if (bytes & 8) of_8 = *reinterpret_cast<const uint64_t*>(memory);
  if (sizeof(Element) <= 4 && bytes & 4) of_4 = *reinterpret_cast<const uint32_t*>(memory + (bytes & 8));
  if (sizeof(Element) <= 2 && bytes & 2) of_2 = *reinterpret_cast<const uint16_t*>(memory + (bytes & 12));
  if (sizeof(Element) == 1 && bytes & 1) of_1 = memory[bytes & 14];
  const uint32_t low = bytes & 2 ? of_1 << 16 | of_2 : of_1;
  const uint64_t rest = bytes & 4 ? uint64_t{low} << 32 | of_4 : low;
  const uint64_t half = bytes & 8 ? of_8 : rest, other = bytes & 8 ? rest : 0;
  return {static_cast<uint32_t>(half), static_cast<uint32_t>(half >> 32), static_cast<uint32_t>(other),
          static_cast<uint32_t>(other >> 32)};
}

// Shared memory by number. A compiler that sees through a pointer into shared memory finds its base anew for every
// access, which takes longer than the access; through this number it cannot.
__device__ __forceinline__ uint32_t shared_address(const void* shared) {
  auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("" : "+r"(address));
  return address;
}
template <class T>
__device__ __forceinline__ T load_shared(uint32_t address) {
  T value;
  if constexpr (sizeof(T) == 16) {
    uint64_t words[2];
    asm volatile("ld.shared.v2.u64 {%0, %1}, [%2];" : "=l"(words[0]), "=l"(words[1]) : "r"(address));
    memcpy(&value, words, sizeof(value));
  } else if constexpr (sizeof(T) == 8) {
    uint64_t word;
    asm volatile("ld.shared.u64 %0, [%1];" : "=l"(word) : "r"(address));
    memcpy(&value, &word, sizeof(value));
  } else {
    uint32_t word;
    if constexpr (sizeof(T) == 4) {
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address));
    } else if constexpr (sizeof(T) == 2) {
      asm volatile("ld.shared.u16 %0, [%1];" : "=r"(word) : "r"(address));
    } else {
      static_assert(sizeof(T) == 1);
      asm volatile("ld.shared.u8 %0, [%1];" : "=r"(word) : "r"(address));
    }
    memcpy(&value, &word, sizeof(value));
  }
  return value;
}
// A vector from global to shared memory, past the registers. It is there for the thread that asked for it after
// wait_for_copies(), for others after a barrier behind that.
__device__ __forceinline__ void copy_async(uint32_t shared, const uint4* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}
__device__ __forceinline__ void copy_async(uint32_t shared, const uint2* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared), "l"(global) : "memory");
}
__device__ __forceinline__ void copy_async(uint32_t shared, const uint32_t* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(global) : "memory");
}
__device__ __forceinline__ void end_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// For all but the last kLater groups of copies, each ended by end_copies().
template <int kLater>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLater) : "memory");
}

// The 16 bytes that start `bytes` (0 .. 15, a multiple of kStep) into the 32 of `low` and `high`.
template <int kStep>
__device__ __forceinline__ uint4 shift_bytes(const uint4& low, const uint4& high, int bytes) {
  const bool two = bytes & 8, one = bytes & 4;
  uint32_t words[6];  // from the pair of words on that the result starts in
  words[0] = two ? low.z : low.x;
  words[1] = two ? low.w : low.y;
  words[2] = two ? high.x : low.z;
  words[3] = two ? high.y : low.w;
  words[4] = two ? high.z : high.x;
  words[5] = two ? high.w : high.y;
  if constexpr (kStep < 8) {
#pragma unroll
    for (int i = 0; i < 5; i++) words[i] = one ? words[i + 1] : words[i];
  }
  if constexpr (kStep < 4) {
    const unsigned bits = 8 * (bytes & 3);
#pragma unroll
    for (int i = 0; i < 4; i++) words[i] = __funnelshift_r(words[i], words[i + 1], bits);
  }
  return {words[0], words[1], words[2], words[3]};
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

// Element k of some that lie side by side.
template <class Input, class Element, class Bytes>
__device__ __forceinline__ Input element_of(const Bytes& bytes, int k) {
  if constexpr (std::is_same_v<Element, BFloat16> && sizeof(Bytes) >= sizeof(uint32_t)) {
    // An instruction each: the float of the high one of two is both without the low one.
    uint32_t words[sizeof(Bytes) / sizeof(uint32_t)];
    memcpy(words, &bytes, sizeof(bytes));
    const uint32_t word = words[k / 2];
    return convert<Input>(__uint_as_float(k % 2 == 0 ? word << 16 : word & 0xffff0000));
  } else {
    Element elements[sizeof(Bytes) / sizeof(Element)];
    memcpy(elements, &bytes, sizeof(bytes));
    return widen<Input>(elements[k]);
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
