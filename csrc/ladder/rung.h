// The rungs of the teaching ladder: one sum, from a serial loop to this library's own kernel
// (docs/ladder.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpureduce {

enum class Rung : uint8_t {
  kSerial,  // one CPU thread, one loop
  kV1,      // shared memory, interleaved addressing
  kV2,      // two elements added at the load, sequential addressing
  kV3Warp,  // kV2 with the last warp in shuffles
  kV3,      // two-level shuffle reduction of a block, grid-stride loop
  kSum,     // gpureduce::sum
};

// In the order of the enumerators.
inline constexpr std::array<std::string_view, 6> kRungNames = {"serial", "v1", "v2", "v3_warp", "v3", "sum"};

constexpr std::optional<Rung> parse_rung(std::string_view name) {
  for (size_t i = 0; i < kRungNames.size(); i++) {
    if (kRungNames[i] == name) return static_cast<Rung>(i);
  }
  return std::nullopt;
}

// "serial, v1, ...", for messages.
inline std::string rung_names() {
  std::string names;
  for (const std::string_view name : kRungNames) {
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

}  // namespace gpureduce
