// What a thread of the kernels for neighbouring outputs loads at once.
#pragma once

#include <type_traits>

#include "cuda/device.cuh"
#include "reductions/kernel_traits.h"

namespace gpureduce::cuda {

// kVector neighbouring elements, as they lie in memory until they are used.
template <class Element, int kVector>
struct Unit {
  static constexpr int kBytes = sizeof(Element) * kVector;
  using Word = std::conditional_t<
      kVector == 1, Element,
      std::conditional_t<kBytes == 16, uint4,
                         std::conditional_t<kBytes == 8, uint2, std::conditional_t<kBytes == 4, uint32_t, uint16_t>>>>;
  Word word;

  static __device__ __forceinline__ Unit filled_with(Element element) {
    Element elements[kVector];
#pragma unroll
    for (int k = 0; k < kVector; k++) elements[k] = element;
    Unit unit;
    memcpy(&unit.word, elements, sizeof(unit.word));
    return unit;
  }
  __device__ __forceinline__ void load(const Element* address) {
    const auto* words = reinterpret_cast<const Word*>(address);
    if constexpr (requires { load_streaming(words); }) {
      word = load_streaming(words);
    } else {
      word = *words;
    }
  }
  template <class Input>
  __device__ __forceinline__ Input at(int k) const {
    return element_of<Input, Element>(word, k);
  }
};

}  // namespace gpureduce::cuda
