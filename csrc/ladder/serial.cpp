#include "ladder/serial.h"

namespace gpureduce {

void serial_sum(DType dtype, const void* input, int64_t length, void* output) {
  dispatch(dtype, [&]<class Element>() {
    if constexpr (!is_complex<Element>) {
      using Acc = Accumulator<Element>;
      // Signed overflow is undefined in C++; unsigned arithmetic has the wrap that is promised.
      using Sum =
          typename std::conditional_t<std::is_integral_v<Acc>, std::make_unsigned<Acc>, std::type_identity<Acc>>::type;
      const Element* elements = static_cast<const Element*>(input);
      Sum sum = 0;
      for (int64_t i = 0; i < length; i++) sum += static_cast<Sum>(convert<Acc>(elements[i]));
      *static_cast<Acc*>(output) = static_cast<Acc>(sum);
    }
  });
}

}  // namespace gpureduce
