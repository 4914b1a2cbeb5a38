// Sums that may be out of range of float64: sum x 2^exponent, where the exponent is an integer.
#pragma once

#include <bit>
#include <cstdint>

namespace gpureduce {

// 2^exponent, an integer from -1022 to 0.
constexpr double negative_power_of_two(double exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(static_cast<int64_t>(exponent) + 1023) << 52);
}

struct ScaledSum {
  double sum = 0, exponent = 0;

  static constexpr double kFarBelow = -0x1p1000, kFarAbove = 0x1p1000;  // beyond all exponents that occur

  // With the larger exponent, to which the other sum is scaled: exact, unless what is lost is too little to matter.
  friend constexpr ScaledSum operator+(const ScaledSum& a, const ScaledSum& b) {
    const double exponent = a.exponent > b.exponent ? a.exponent : b.exponent;
    return {a.at(exponent) + b.at(exponent), exponent};
  }

 private:
  constexpr double at(double larger_exponent) const {
    // In two steps, of which each is a normal number.
    const double down = exponent - larger_exponent, first = down < -1022 ? -1022 : down;
    const double rest = down - first;
    return sum * negative_power_of_two(first) * negative_power_of_two(rest < -1022 ? -1022 : rest);
  }
};

}  // namespace gpureduce
