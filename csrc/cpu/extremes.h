// Extremes of elements that are neighbours, and where they stand: one loop over the elements' bits instead of lanes.
#pragma once

#include <array>
#include <limits>

#include "reductions/arg_extremum.h"

namespace gpureduce::cpu {

template <int kBytes>
struct BitsOf;
template <>
struct BitsOf<1> {
  using Signed = int8_t;
  using Unsigned = uint8_t;
};
template <>
struct BitsOf<2> {
  using Signed = int16_t;
  using Unsigned = uint16_t;
};
template <>
struct BitsOf<4> {
  using Signed = int32_t;
  using Unsigned = uint32_t;
};
template <>
struct BitsOf<8> {
  using Signed = int64_t;
  using Unsigned = uint64_t;
};

// Calls take(rows, count) with four rows of `count` neighbours at a time, then with what is left in a row of its own.
// Hardware reads ahead to the end of a page and in several at once: the rows are pages, and the first lines of the next
// ones are asked for here.
template <class Element, class Take>
constexpr void in_pages(const Element* elements, int64_t count, Take take) {
  constexpr int64_t kPage = 4096 / sizeof(Element), kLine = 64 / sizeof(Element), kLines = 8;
  for (; count >= 4 * kPage; elements += 4 * kPage, count -= 4 * kPage) {
    for (int64_t page = 4; page < 8; page++) {
      for (int64_t line = 0; line < kLines; line++) __builtin_prefetch(elements + page * kPage + line * kLine);
    }
    take(std::array{elements, elements + kPage, elements + 2 * kPage, elements + 3 * kPage}, kPage);
  }
  if (count > 0) take(std::array{elements}, count);
}

// Whether an element is, by its bits, one that equals `value`. Floats: the sign of a zero does not count, and a NaN is
// like any other.
enum class Match : uint8_t { kSame, kZero, kNan, kTrue };

template <class Element, Match kMatch, class Bits>
constexpr bool matches(Bits bits, Bits wanted, Bits infinity) {
  constexpr Bits kMagnitude = std::numeric_limits<Bits>::max() >> 1;
  if constexpr (kMatch == Match::kZero) return (bits & kMagnitude) == 0;
  if constexpr (kMatch == Match::kNan) return (bits & kMagnitude) > infinity;
  if constexpr (kMatch == Match::kTrue) return bits != 0;
  return bits == wanted;
}

template <class Element>
struct Extremes {
  static constexpr bool kFloat = is_small_float<Element> || std::is_floating_point_v<Element>;
  static constexpr bool kBool = std::is_same_v<Element, Bool>;
  using Value = Comparable<Element>;

  template <Extreme kExtreme>
  static constexpr Value value(const Element* elements, int64_t count) {
    if constexpr (kFloat) {
      return float_value<kExtreme>(elements, count);
    } else if constexpr (kBool) {
      uint8_t any = 0, any_false = 0;
      in_pages(elements, count, [&]<std::size_t kRows>(std::array<const Element*, kRows> rows, int64_t length) {
        for (int64_t i = 0; i < length; i++) {
          for (const Element* row : rows) {
            any |= row[i].bits;
            any_false |= static_cast<uint8_t>(row[i].bits == 0);
          }
        }
      });
      return kExtreme == Extreme::kLargest ? any != 0 : any_false == 0;
    } else {
      Element best = elements[0];
      in_pages(elements, count, [&]<std::size_t kRows>(std::array<const Element*, kRows> rows, int64_t length) {
        for (int64_t i = 0; i < length; i++) {
          Element winner = rows[0][i];
          for (std::size_t r = 1; r < kRows; r++)
            winner = is_beyond<kExtreme>(rows[r][i], winner) ? rows[r][i] : winner;
          best = is_beyond<kExtreme>(winner, best) ? winner : best;
        }
      });
      return best;
    }
  }

  // Where the first element stands that is `value`, which is among them.
  static constexpr int64_t first(const Element* elements, int64_t count, Value value) {
    if constexpr (kFloat) {
      const auto wanted = bits_of(convert<Element>(value));
      if (is_nan(value)) return first_match<Match::kNan>(elements, count, wanted);
      if (value == 0) return first_match<Match::kZero>(elements, count, wanted);
      return first_match<Match::kSame>(elements, count, wanted);
    } else if constexpr (kBool) {
      if (value != 0) return first_match<Match::kTrue>(elements, count, uint8_t{1});
      return first_match<Match::kSame>(elements, count, uint8_t{0});
    } else {
      return first_match<Match::kSame>(elements, count, static_cast<Element>(value));
    }
  }

 private:
  static constexpr auto bits_of(Element x) {
    if constexpr (std::is_floating_point_v<Element>) {
      return std::bit_cast<typename BitsOf<sizeof(Element)>::Unsigned>(x);
    } else if constexpr (kFloat || kBool) {
      return x.bits;
    } else {
      return x;
    }
  }
  // The largest magnitude, as bits, that is not NaN.
  static constexpr auto infinity_bits() {
    using Unsigned = typename BitsOf<sizeof(Element)>::Unsigned;
    constexpr auto magnitude = static_cast<Unsigned>(std::numeric_limits<Unsigned>::max() >> 1);
    return static_cast<Unsigned>(bits_of(weakest_element<Extreme::kSmallest, Element>()) & magnitude);
  }

  // As integers, floats of one sign are sorted by magnitude: the largest signed is the largest float unless all are
  // negative, the largest unsigned the smallest one unless none is; else it is the smallest unsigned. NaNs of either
  // sign lie past the infinities.
  template <Extreme kExtreme>
  static constexpr Value float_value(const Element* elements, int64_t count) {
    using Signed = typename BitsOf<sizeof(Element)>::Signed;
    using Unsigned = typename BitsOf<sizeof(Element)>::Unsigned;
    Signed largest = std::numeric_limits<Signed>::min();
    Unsigned highest = 0, lowest = std::numeric_limits<Unsigned>::max();
    in_pages(elements, count, [&]<std::size_t kRows>(std::array<const Element*, kRows> rows, int64_t length) {
      for (int64_t i = 0; i < length; i++) {
        Unsigned low = bits_of(rows[0][i]), high = low;
        auto most = static_cast<Signed>(low);
        for (std::size_t r = 1; r < kRows; r++) {
          const Unsigned bits = bits_of(rows[r][i]);
          const auto as_signed = static_cast<Signed>(bits);
          most = as_signed > most ? as_signed : most;
          high = bits > high ? bits : high;
          low = bits < low ? bits : low;
        }
        largest = most > largest ? most : largest;
        highest = high > highest ? high : highest;
        lowest = low < lowest ? low : lowest;
      }
    });
    constexpr Unsigned kInfinity = infinity_bits(), kSign = static_cast<Unsigned>(~(Unsigned(~Unsigned(0)) >> 1));
    if (largest > static_cast<Signed>(kInfinity) || highest > (kInfinity | kSign)) {
      return std::numeric_limits<Value>::quiet_NaN();
    }
    const Unsigned best = kExtreme == Extreme::kLargest ? (largest >= 0 ? static_cast<Unsigned>(largest) : lowest)
                                                        : (highest >= kSign ? highest : lowest);
    return convert<Value>(std::bit_cast<Element>(best));
  }

  template <Match kMatch, class Bits>
  static constexpr int64_t first_match(const Element* elements, int64_t count, Bits wanted) {
    Bits infinity = 0;
    if constexpr (kFloat) infinity = infinity_bits();
    constexpr int64_t kBlock = 512 / sizeof(Element);
    int64_t i = 0;
    for (; i + kBlock <= count; i += kBlock) {
      Bits found = 0;
      for (int64_t k = 0; k < kBlock; k++) {
        found |= static_cast<Bits>(matches<Element, kMatch>(bits_of(elements[i + k]), wanted, infinity));
      }
      if (found != 0) break;
    }
    while (i + 1 < count && !matches<Element, kMatch>(bits_of(elements[i]), wanted, infinity)) i++;
    return i;
  }
};

// What is found of a reduction by Extremes.
template <class Reduction, class Source>
struct ExtremeSearch {
  static constexpr bool kHas = false;
};
template <class Element, Extreme kExtreme>
struct ExtremeSearchOf {
  static constexpr bool kHas = !is_complex<Element>;
  static constexpr Comparable<Element> value(const Element* elements, int64_t count) {
    return Extremes<Element>::template value<kExtreme>(elements, count);
  }
};
template <class Element>
struct ExtremeSearch<Amax<Element>, Element> : ExtremeSearchOf<Element, Extreme::kLargest> {};
template <class Element>
struct ExtremeSearch<Amin<Element>, Element> : ExtremeSearchOf<Element, Extreme::kSmallest> {};
template <class Element>
struct ExtremeSearch<Argmax<Element>, Element> : ExtremeSearchOf<Element, Extreme::kLargest> {};
template <class Element>
struct ExtremeSearch<Argmin<Element>, Element> : ExtremeSearchOf<Element, Extreme::kSmallest> {};

}  // namespace gpureduce::cpu
