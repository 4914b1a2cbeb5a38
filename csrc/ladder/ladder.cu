#include "ladder/ladder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <cuda_runtime.h>

namespace gpureduce {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr unsigned kFullMask = ~0u;

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}

// ---- what a pass leaves

// v1 to v3_warp leave one partial sum for each tile: one element or two for each thread of a block.
constexpr int64_t tile_elements(Rung rung) {
  return rung == Rung::kV1 ? kThreads : 2 * kThreads;
}

// v3 leaves one for each block. 1024 blocks fill the cards of today once, and are few enough for
// one block to add up in the second pass; with fewer than 8 elements for each thread, starting a
// block costs more than it saves.
constexpr int64_t kMaxBlocksV3 = 1024;
constexpr int64_t kMinElementsOfBlockV3 = 8 * kThreads;

// At least one, so that no elements give the sum 0 and not an empty grid.
constexpr int64_t num_partials(Rung rung, int64_t length) {
  if (rung == Rung::kV3) {
    return std::clamp<int64_t>(ceil_div(length, kMinElementsOfBlockV3), 1, kMaxBlocksV3);
  }
  return std::max<int64_t>(1, ceil_div(length, tile_elements(rung)));
}

// ---- adding

// Signed overflow is undefined in C++; unsigned arithmetic has the wrap that is promised.
template <class Acc>
__device__ __forceinline__ Acc add(Acc a, Acc b) {
  if constexpr (std::is_integral_v<Acc>) {
    using Bits = std::make_unsigned_t<Acc>;
    return static_cast<Acc>(static_cast<Bits>(a) + static_cast<Bits>(b));
  } else {
    return a + b;
  }
}

template <class Element>
__device__ __forceinline__ Accumulator<Element> load_or_zero(const Element* input, int64_t index, int64_t length) {
  using Acc = Accumulator<Element>;
  return index < length ? convert<Acc>(input[index]) : Acc(0);
}

// All 32 lanes call it; lane 0 holds the sum.
template <class Acc>
__device__ __forceinline__ Acc warp_sum(Acc value) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = add(value, __shfl_down_sync(kFullMask, value, distance));
  }
  return value;
}

// All threads of the block call it once; thread 0 holds the sum.
template <class Acc>
__device__ __forceinline__ Acc block_sum(Acc value) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ Acc of_warps[kWarps];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  value = warp_sum(value);
  if (lane == 0) of_warps[warp] = value;
  __syncthreads();
  if (warp == 0) value = warp_sum(lane < kWarps ? of_warps[lane] : Acc(0));
  return value;
}

// ---- the kernels: partials[i] is the sum of tile i (v1, v2, v3_warp) or what block i met (v3)

template <class Element>
__global__ void __launch_bounds__(kThreads)
    v1_kernel(const Element* input, int64_t length, int64_t num_tiles, Accumulator<Element>* partials) {
  __shared__ Accumulator<Element> values[kThreads];
  const unsigned thread = threadIdx.x;
  for (int64_t tile = blockIdx.x; tile < num_tiles; tile += gridDim.x) {
    values[thread] = load_or_zero(input, tile * kThreads + thread, length);
    __syncthreads();
    // The block's size is read at run time, as it is in the textbook's kernel: with a constant the
    // loop unrolls, the remainder becomes a mask, and part of what this rung shows is gone.
    for (unsigned stride = 1; stride < blockDim.x; stride *= 2) {
      if (thread % (2 * stride) == 0) values[thread] = add(values[thread], values[thread + stride]);
      __syncthreads();
    }
    if (thread == 0) partials[tile] = values[0];
  }
}

template <class Element>
__global__ void __launch_bounds__(kThreads)
    v2_kernel(const Element* input, int64_t length, int64_t num_tiles, Accumulator<Element>* partials) {
  __shared__ Accumulator<Element> values[kThreads];
  const unsigned thread = threadIdx.x;
  for (int64_t tile = blockIdx.x; tile < num_tiles; tile += gridDim.x) {
    const int64_t first = tile * (2 * kThreads) + thread;
    values[thread] = add(load_or_zero(input, first, length), load_or_zero(input, first + kThreads, length));
    __syncthreads();
    for (unsigned stride = blockDim.x / 2; stride > 0; stride /= 2) {
      if (thread < stride) values[thread] = add(values[thread], values[thread + stride]);
      __syncthreads();
    }
    if (thread == 0) partials[tile] = values[0];
  }
}

template <class Element>
__global__ void __launch_bounds__(kThreads)
    v3_warp_kernel(const Element* input, int64_t length, int64_t num_tiles, Accumulator<Element>* partials) {
  __shared__ Accumulator<Element> values[kThreads];
  const unsigned thread = threadIdx.x;
  for (int64_t tile = blockIdx.x; tile < num_tiles; tile += gridDim.x) {
    const int64_t first = tile * (2 * kThreads) + thread;
    values[thread] = add(load_or_zero(input, first, length), load_or_zero(input, first + kThreads, length));
    __syncthreads();
    for (unsigned stride = blockDim.x / 2; stride > kWarp; stride /= 2) {
      if (thread < stride) values[thread] = add(values[thread], values[thread + stride]);
      __syncthreads();
    }
    if (thread < kWarp) {
      const auto sum = warp_sum(add(values[thread], values[thread + kWarp]));
      if (thread == 0) partials[tile] = sum;
    }
    __syncthreads();  // the other warps must not overwrite with the next tile what the first still
                      // reads
  }
}

template <class Element>
__global__ void __launch_bounds__(kThreads)
    v3_kernel(const Element* input, int64_t length, Accumulator<Element>* partials) {
  using Acc = Accumulator<Element>;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  Acc sum = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < length; i += step) {
    sum = add(sum, convert<Acc>(input[i]));
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// ---- from a rung to launches

template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), int64_t num_blocks, cudaStream_t stream, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(num_blocks));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

// The grid's cap, the hardware's own, and behind it the loop over tiles of the kernels.
constexpr int64_t blocks_for_tiles(int64_t num_tiles) {
  return std::min<int64_t>(num_tiles, std::numeric_limits<int32_t>::max());
}

template <class Element>
cudaError_t launch_pass(Rung rung, const Element* input, int64_t length, Accumulator<Element>* partials,
                        cudaStream_t stream) {
  const int64_t count = num_partials(rung, length), blocks = blocks_for_tiles(count);
  switch (rung) {
    case Rung::kV1:
      return launch(v1_kernel<Element>, blocks, stream, input, length, count, partials);
    case Rung::kV2:
      return launch(v2_kernel<Element>, blocks, stream, input, length, count, partials);
    case Rung::kV3Warp:
      return launch(v3_warp_kernel<Element>, blocks, stream, input, length, count, partials);
    case Rung::kV3:
      return launch(v3_kernel<Element>, count, stream, input, length, partials);
    case Rung::kSerial:
    case Rung::kSum:
      break;
  }
  return cudaErrorInvalidValue;
}

}  // namespace

size_t rung_scratch_bytes(Rung rung, DType dtype, int64_t length) {
  const size_t count = static_cast<size_t>(num_partials(rung, length));
  if (count == 1) return 0;
  return dispatch(dtype, [&]<class Element>() { return count * sizeof(Accumulator<Element>); });
}

cudaError_t launch_rung(Rung rung, DType dtype, const void* input, int64_t length, void* partials_a, void* partials_b,
                        void* output, cudaStream_t stream) {
  return dispatch(dtype, [&]<class Element>() -> cudaError_t {
    if constexpr (is_complex<Element>) {
      return cudaErrorInvalidValue;
    } else {
      using Acc = Accumulator<Element>;
      Acc *from = static_cast<Acc*>(partials_a), *other = static_cast<Acc*>(partials_b);
      int64_t left = num_partials(rung, length);
      cudaError_t error = launch_pass(rung, static_cast<const Element*>(input), length,
                                      left == 1 ? static_cast<Acc*>(output) : from, stream);
      while (error == cudaSuccess && left > 1) {
        const int64_t fewer = num_partials(rung, left);
        error = launch_pass(rung, from, left, fewer == 1 ? static_cast<Acc*>(output) : other, stream);
        std::swap(from, other);
        left = fewer;
      }
      return error;
    }
  });
}

}  // namespace gpureduce
