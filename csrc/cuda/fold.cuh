// Folds in halves (core/order.h): over the slots and threads of a warp, the warps of a block, and the leaves of an
// output.
#pragma once

#include "core/order.h"
#include "cuda/device.cuh"
#include "reductions/reduction.h"

namespace gpureduce::cuda {

// By recursion: a loop over halves stays one from sixteen values on, and then these are in memory.
template <class Reduction, int kCount, class Value>
__device__ __forceinline__ Value fold_registers(Value (&values)[kCount]) {
  if constexpr (kCount == 1) {
    return values[0];
  } else {
    Value half[kCount / 2];
#pragma unroll
    for (int i = 0; i < kCount / 2; i++) half[i] = Reduction::merge(values[i], values[i + kCount / 2]);
    return fold_registers<Reduction>(half);
  }
}

// Folds lane = thread * kCount + slot over groups of 2 * distance threads, thread bits first. Every thread of a group
// gets the result; all 32 threads of the warp must come.
//
// A step halves the slots instead of moving them all: a thread keeps its even or its odd slots and gets its partner's
// share of the same. What is left differs in the slot's high bits, which fold next, and on the way back the low ones.
template <class Reduction, int kCount, class Value>
__device__ __forceinline__ Value fold_threads(Value (&values)[kCount], int distance) {
  if constexpr (kCount == 1) {
    for (; distance >= 1; distance /= 2) {
      values[0] = Reduction::merge(values[0], shuffle_xor(values[0], distance));
    }
    return values[0];
  } else {
    if (distance == 0) return fold_registers<Reduction>(values);
    const bool keeps_odd = threadIdx.x & distance;
    Value kept[kCount / 2];
#pragma unroll
    for (int i = 0; i < kCount / 2; i++) {
      const Value sent = keeps_odd ? values[2 * i] : values[2 * i + 1];
      kept[i] = Reduction::merge(keeps_odd ? values[2 * i + 1] : values[2 * i], shuffle_xor(sent, distance));
    }
    const Value folded = fold_threads<Reduction>(kept, distance / 2);
    return Reduction::merge(folded, shuffle_xor(folded, distance));
  }
}

// Folds load(0) .. load(count - 1), padded with the identity, by one warp: all its threads get the result. count <=
// 512.
template <class Reduction, class Load>
__device__ __forceinline__ auto fold_by_warp(int count, Load load) {
  using Value = decltype(load(0));
  constexpr int kBatch = 8;  // loads in flight; index = (batch slot | parity | thread), top to bottom
  const int thread = threadIdx.x % kWarp;
  const auto load_batch = [&](int parity) {
    // No load under a condition: they would be waited for one by one.
    Value values[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; j++) values[j] = load(min((2 * j + parity) * kWarp + thread, count - 1));
#pragma unroll
    for (int j = 0; j < kBatch; j++) {
      if ((2 * j + parity) * kWarp + thread >= count) values[j] = identity_of<Reduction, Value>();
    }
    return fold_registers<Reduction>(values);
  };
  Value folded[1] = {identity_of<Reduction, Value>()};
  if (count <= kWarp) {
    const Value value = load(min(thread, count - 1));
    if (thread < count) folded[0] = value;
  } else {
    folded[0] = Reduction::merge(load_batch(0), load_batch(1));
  }
  return fold_threads<Reduction>(folded, kWarp / 2);
}

// Calls f(i) for 0 .. count - 1, shared by the threads of the block. kRolled: the loop stays one, which is little code
// for what is done once.
template <bool kRolled, class F>
__device__ __forceinline__ void by_threads(int count, F f) {
  const int thread = threadIdx.x, threads = blockDim.x;
  if constexpr (kRolled) {
#pragma unroll 1
    for (int i = thread; i < count; i += threads) f(i);
  } else {
    for (int i = thread; i < count; i += threads) f(i);
  }
}

// Threads of the block fold v[0 .. count * stride), of each of `stride` outputs padded with the identity to a power of
// two, down to v[0 .. stride). Barriers before and after. Little code: what is run once takes longer to fetch than to
// run.
template <class Reduction, class Values>
__device__ __forceinline__ void fold_shared(Values v, int count, int stride) {
  __syncthreads();
  while (count > 1) {
    const int half = 1 << log2_on_device(count - 1), rest = half * stride;
    for (int i = threadIdx.x; i + rest < count * stride; i += blockDim.x) v[i] = Reduction::merge(v[i], v[i + rest]);
    count = half;
    __syncthreads();
  }
}

// All threads of the block: whether theirs is the last of `tickets` to be drawn, after what they wrote.
__device__ __forceinline__ bool draws_last_ticket(unsigned* counter, int tickets) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) is_last = draw_ticket(counter, tickets - 1) == tickets - 1u;
  __syncthreads();
  return is_last;
}

// A fold in halves over 2^levels values that come in bit-reversed order, so that it needs one value of memory a level.
// `memory` is this thread's alone, `stride` values from one level to the next.
template <class Reduction, class Value, int kCount>
struct HalvesStack {
  Value* memory;
  int stride;

  // Value number c (0, 1, 2, ...): returns, in `values`, all that is folded so far when c is the last one.
  __device__ __forceinline__ void push(Value (&values)[kCount], int c, bool last) {
    int level = 0;
    for (; c >> level & 1; level++) {
#pragma unroll
      for (int k = 0; k < kCount; k++) values[k] = Reduction::merge(memory[(level * kCount + k) * stride], values[k]);
    }
    if (last) return;
#pragma unroll
    for (int k = 0; k < kCount; k++) memory[(level * kCount + k) * stride] = values[k];
  }
};

// The same in registers, where c is known when the loop is unrolled: `values` is number c, and afterwards all that it
// completes.
template <class Reduction, class Value, int kCount, int kLevels>
__device__ __forceinline__ void fold_in_turn(Value (&unfolded)[kLevels][kCount], Value (&values)[kCount], int c) {
  int level = 0;
#pragma unroll
  for (; c >> level & 1; level++) {
#pragma unroll
    for (int k = 0; k < kCount; k++) values[k] = Reduction::merge(unfolded[level][k], values[k]);
  }
#pragma unroll
  for (int k = 0; k < kCount; k++) unfolded[level][k] = values[k];
}

// Takes an element that stands behind all that the value has taken.
template <class Reduction>
__device__ __forceinline__ typename Reduction::Value take_next(typename Reduction::Value value,
                                                               typename Reduction::Input x, int64_t index,
                                                               const FocusOf<Reduction>& focus) {
  if constexpr (requires { Reduction::take_in_turn(value, x, index); }) {
    return Reduction::take_in_turn(value, x, index);
  } else {
    return take_element<Reduction>(value, x, index, focus);
  }
}

__device__ __forceinline__ int reverse_bits(int x, int bits) {
  return bits == 0 ? 0 : static_cast<int>(__brev(static_cast<unsigned>(x)) >> (32 - bits));
}

// Result number kIndex of a value, as an element of the output.
template <class Reduction, int kIndex, class Out, class Value>
__device__ __forceinline__ Out round_result(const Value& value, const FinishArguments& arguments) {
  const auto result = finish<Reduction, kIndex>(value, arguments);
  if constexpr (is_count<Reduction>() && is_small_float<Out>) {
    return narrow<Out>(static_cast<float>(result));
  } else {
    return narrow<Out>(result);
  }
}

// Writes result number `index` of a value to each output.
template <class Reduction, class Value>
__device__ __forceinline__ void store(const Outputs& outputs, int64_t index, const Value& value,
                                      const FinishArguments& arguments) {
  for_each_output<Reduction, Value>(outputs, [&]<int kIndex, class Out>(void* data) {
    static_cast<Out*>(data)[index] = round_result<Reduction, kIndex, Out>(value, arguments);
  });
}

// Bytes that `count` neighbouring results take of the output of the widest ones.
template <class Reduction, class Value>
constexpr int widest_results(int count) {
  using Results = decltype(Reduction::finish(std::declval<Value>(), std::declval<FinishArguments>()));
  return [&]<int... kIndices>(std::integer_sequence<int, kIndices...>) {
    return count * std::max({static_cast<int>(sizeof(finish<Reduction, kIndices>(std::declval<Value>(), {})))...});
  }(std::make_integer_sequence<int, ResultsOf<Results>::kCount>());
}

// Shared memory through which the warps of a block store what is wider than 16 bytes a thread: these would be pieces of
// as many lines as there are threads.
template <int kBytesOfThread, int kThreads>
struct StoreMemory {
  static constexpr bool kNeeded = kBytesOfThread > 16;
  alignas(16) unsigned char bytes[kNeeded ? kThreads * kBytesOfThread : 16];
  __device__ __forceinline__ uint4* of_warp() {
    return reinterpret_cast<uint4*>(bytes + (kNeeded ? threadIdx.x / kWarp * kWarp * kBytesOfThread : 0));
  }
};

// The packs of a warp's threads, as they lie one after the other in memory, by whole lines.
template <int kPacks>
__device__ __forceinline__ void store_packs(uint4* to, const uint4 (&packs)[kPacks], uint4* memory) {
  const int lane = threadIdx.x % kWarp;
  const auto spread = [](int i) { return i ^ (i >> 3 & 7); };  // eight threads that follow one another meet in no bank
#pragma unroll
  for (int j = 0; j < kPacks; j++) memory[spread(lane * kPacks + j)] = packs[j];
  __syncwarp();
#pragma unroll
  for (int j = 0; j < kPacks; j++) to[j * kWarp + lane] = memory[spread(j * kWarp + lane)];
  __syncwarp();
}

// The same for kCount neighbouring results of each thread that has some (`there`), at once where their address allows.
// All threads of the warp come, with what memory it has for this.
template <class Reduction, class Value, int kCount>
__device__ __forceinline__ void store_neighbours(const Outputs& outputs, int64_t index, const Value (&values)[kCount],
                                                 bool there, const FinishArguments& arguments, uint4* memory) {
  for_each_output<Reduction, Value>(outputs, [&]<int kIndex, class Out>(void* data) {
    constexpr int kBytes = kCount * sizeof(Out), kPackBytes = 16;
    struct alignas(std::min(kBytes, kPackBytes)) Pack {
      Out elements[kCount];
    };
    Pack pack;
#pragma unroll
    for (int k = 0; k < kCount; k++) {
      pack.elements[k] = round_result<Reduction, kIndex, Out>(values[k], arguments);
    }
    Out* address = static_cast<Out*>(data) + index;
    const bool aligned = reinterpret_cast<uintptr_t>(address) % alignof(Pack) == 0;
    if constexpr (kBytes > kPackBytes) {
      const int lane = threadIdx.x % kWarp;
      const bool in_line = index == __shfl_sync(kFullMask, index, 0) + lane * kCount;
      if (__all_sync(kFullMask, there && aligned && in_line)) {
        uint4 packs[kBytes / kPackBytes];
        memcpy(packs, &pack, sizeof(pack));
        store_packs(reinterpret_cast<uint4*>(address - lane * kCount), packs, memory);
        return;
      }
    }
    if (!there) return;
    if (aligned) {
      *reinterpret_cast<Pack*>(address) = pack;
    } else {
#pragma unroll
      for (int k = 0; k < kCount; k++) address[k] = pack.elements[k];
    }
  });
}

// The first `count` of them, one by one.
template <class Reduction, class Value, int kCount>
__device__ __noinline__ void store_some(const Outputs& outputs, int64_t index, const Value (&values)[kCount], int count,
                                        const FinishArguments& arguments) {
#pragma unroll 1
  for (int k = 0; k < count; k++) store<Reduction>(outputs, index + k, values[k], arguments);
}

}  // namespace gpureduce::cuda
