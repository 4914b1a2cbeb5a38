// Sums of floats: the lanes of a leaf are folded as they are taken, without a place in memory.
#pragma once

#include "cpu/loops.h"
#include "cpu/pack.h"
#include "reductions/sum.h"

namespace gpureduce::cpu {

// kPacks of neighbours from a load. Of bfloat16 the first has the even elements, the second the odd ones: neighbours
// are the last lanes to fold, so that they may lie apart until then.
template <class Source>
struct SumLoad {
  using Acc = Accumulator<Source>;
  static constexpr int kPacks = 1, kElements = Pack<Acc>::kSize;
  static void load(Pack<Acc>* packs, const Source* from) { avx2::load(packs[0], from); }
};
template <>
struct SumLoad<BFloat16> {
  static constexpr int kPacks = 2, kElements = 2 * Pack<float>::kSize;
  static void load(Pack<float>* packs, const BFloat16* from) { avx2::load_even_and_odd(packs[0], packs[1], from); }
};

// Calls f.template operator()<kCount>() for the first of increasing counts that is no less than `count`, and says
// whether there is one.
template <int... kCounts, class F>
bool with_count(std::integer_sequence<int, kCounts...>, int64_t count, F f) {
  return ((count <= kCounts && (f.template operator()<kCounts>(), true)) || ...);
}

template <class Source>
struct LeafSum {
  using Acc = Accumulator<Source>;
  using Load = SumLoad<Source>;
  static constexpr int kPacks = Load::kPacks, kElements = Load::kElements;
  static constexpr int kMaxLanes = 4096 / sizeof(Source);  // core/order.h

  // The leaf's elements, a round of its lanes each.
  template <int kCount>
  using Rounds = std::array<const Source*, kCount>;

  // What a leaf needs: whole packs of a quarter of its lanes.
  static bool can(int64_t num_lanes) { return num_lanes >= 4 * kElements; }

  // Of `length` elements, at least one; works in `lanes`. `streams`: they come from memory, not from a cache. A lane
  // starts from +0, which only a sum of nothing but -0 would tell from one that starts with its first element: +0 is
  // added to the end.
  static Acc sum(const Source* elements, int64_t length, int64_t num_lanes, bool streams, Acc* lanes) {
    Pack<Acc>* sums = reinterpret_cast<Pack<Acc>*>(lanes);
    alignas(64) Source last[kMaxLanes];
    const int64_t whole = length >> log2_of(num_lanes), rest = length - whole * num_lanes;
    const int64_t count = whole + (rest > 0);
    if (rest > 0) {
      std::memcpy(last, elements + whole * num_lanes, rest * sizeof(Source));
      std::memset(static_cast<void*>(last + rest), 0, (num_lanes - rest) * sizeof(Source));
    }
    const auto rounds = [&]<int kCount>(int64_t from) {
      Rounds<kCount> found;
      for (int r = 0; r < kCount; r++) found[r] = from + r < whole ? elements + (from + r) * num_lanes : last;
      return found;
    };
    Acc result;
    const auto fold = [&]<int kCount>() {
      result = fold_rounds<kCount>(sums, rounds.template operator()<kCount>(0), num_lanes);
    };
    // A leaf of 16 KiB has up to six rounds.
    if (!streams && with_count(std::integer_sequence<int, 1, 2, 3, 4, 5, 6>(), count, fold)) return result + Acc(0);
    int64_t done = 0;
    const auto take = [&]<int kCount, bool kFirst = false>() {
      take_rounds<kCount, kFirst>(sums, rounds.template operator()<kCount>(done), num_lanes);
      done += kCount;
    };
    with_count(std::integer_sequence<int, 1, 2, 3, 4>(), std::min<int64_t>(count, 4),
               [&]<int kCount>() { take.template operator()<kCount, true>(); });
    while (done + 4 <= count) take.template operator()<4>();
    while (done < count) take.template operator()<1>();
    return fold_sums(sums, num_lanes / kElements) + Acc(0);
  }

 private:
  // sum = the lanes at `offset`
  template <int kCount>
  static void add_rounds(Pack<Acc>* sum, const Rounds<kCount>& rounds, int64_t offset) {
    Load::load(sum, rounds[0] + offset);
#pragma GCC unroll 8
    for (int r = 1; r < kCount; r++) add_round(sum, rounds[r] + offset);
  }
  static void add_round(Pack<Acc>* sum, const Source* elements) {
    Pack<Acc> next[kPacks];
    Load::load(next, elements);
    add_packs(sum, next);
  }
  static void add_packs(Pack<Acc>* sum, const Pack<Acc>* other) {
#pragma GCC unroll 2
    for (int p = 0; p < kPacks; p++) avx2::add(sum[p], other[p]);
  }

  // Four lanes a quarter of them apart are folded before they are stored. That reads from many places at once, which
  // is the fastest way in a cache and the slowest in memory.
  template <int kCount>
  static Acc fold_rounds(Pack<Acc>* sums, const Rounds<kCount>& rounds, int64_t num_lanes) {
    const int64_t quarter = num_lanes / 4, stored = quarter / kElements;
    for (int64_t i = 0; i < stored; i++) {
      const int64_t at = i * kElements;
      Pack<Acc> even[kPacks], odd[kPacks], other[kPacks];
      add_rounds<kCount>(even, rounds, at);
      add_rounds<kCount>(other, rounds, at + 2 * quarter);
      add_packs(even, other);
      add_rounds<kCount>(odd, rounds, at + quarter);
      add_rounds<kCount>(other, rounds, at + 3 * quarter);
      add_packs(odd, other);
      add_packs(even, odd);
#pragma GCC unroll 2
      for (int p = 0; p < kPacks; p++) sums[p * stored + i] = even[p];
    }
    return fold_sums(sums, stored);
  }

  // sums += lanes, or = lanes. A round of most lanes is a page, where hardware stops to read ahead: what comes next is
  // asked for across its end.
  template <int kCount, bool kFirst>
  static void take_rounds(Pack<Acc>* sums, const Rounds<kCount>& rounds, int64_t num_lanes) {
    constexpr int64_t kLineBytes = 64, kAhead = 512 / sizeof(Source);
    constexpr int kLine = kLineBytes / (kElements * sizeof(Source));
    const int64_t stored = num_lanes / kElements;
    for (int64_t i = 0; i < stored; i += kLine) {
      const int64_t at = i * kElements, next = at + kAhead;
      const int64_t ahead = next < num_lanes ? next : next + (kCount - 1) * num_lanes;
#pragma GCC unroll 4
      for (int r = 0; r < kCount; r++) __builtin_prefetch(rounds[r] + ahead);
#pragma GCC unroll 4
      for (int64_t j = i; j < i + kLine; j++) {
        Pack<Acc> taken[kPacks];
        if constexpr (kFirst) {
          Load::load(taken, rounds[0] + j * kElements);
        } else {
#pragma GCC unroll 2
          for (int p = 0; p < kPacks; p++) taken[p] = sums[p * stored + j];
        }
#pragma GCC unroll 4
        for (int r = kFirst; r < kCount; r++) add_round(taken, rounds[r] + j * kElements);
#pragma GCC unroll 2
        for (int p = 0; p < kPacks; p++) sums[p * stored + j] = taken[p];
      }
    }
  }

  static Acc fold_sums(Pack<Acc>* sums, int64_t stored) {
    Acc sum = fold_packs(sums, stored);
    if constexpr (kPacks == 2) sum += fold_packs(sums + stored, stored);
    return sum;
  }

  // A power of two of packs, in halves.
  static Acc fold_packs(Pack<Acc>* packs, int64_t count) {
    for (; count >= 4; count /= 4) {
      const int64_t part = count / 4;
      for (int64_t i = 0; i < part; i++) {
        Pack<Acc> even = packs[i], odd = packs[i + part];
        avx2::add(even, packs[i + 2 * part]);
        avx2::add(odd, packs[i + 3 * part]);
        avx2::add(even, odd);
        packs[i] = even;
      }
    }
    if (count == 2) avx2::add(packs[0], packs[1]);
    auto values = packs[0].values;
#pragma GCC unroll 4
    for (int half = Pack<Acc>::kSize / 2; half > 0; half /= 2) {
#pragma GCC unroll 4
      for (int i = 0; i < half; i++) values[i] += values[i + half];
    }
    return values[0];
  }
};

// Without vectors of their own, sums are walked as other reductions are.
template <class Reduction, class Source>
inline constexpr bool has_leaf_sum = false;
template <class Element>
inline constexpr bool has_leaf_sum<Sum<Element>, Element> =
    has_avx2<Isa::kAvx2> &&
    (std::is_floating_point_v<Element> || std::is_same_v<Element, Half> || std::is_same_v<Element, BFloat16>);

// ---- columns

// Four groups of neighbouring lanes, a quarter of all lanes apart, and what each takes: a row for every round. A lane
// that has no element there reads zeros.
template <class Source>
struct QuarterRows {
  // Numbers of rounds that there is a loop for. Wider elements are read as fast a few rows at a time.
  using Counts = std::conditional_t<sizeof(Source) == 2, std::integer_sequence<int, 1, 2, 3, 4, 6, 8, 12>,
                                    std::integer_sequence<int, 1, 2, 3, 4, 6>>;
  static constexpr int kMostRounds = sizeof(Source) == 2 ? 12 : 6;
  int rounds;
  std::array<std::array<const Source*, kMostRounds>, 4> rows;

  static int padded(int64_t rounds) {
    int found = 0;
    with_count(Counts(), rounds, [&]<int kCount>() { found = kCount; });
    return found;
  }
};

// sums[i] = the fold of the four lanes at i. Whole cache lines are read from one row after the other.
template <int kCount, class Source>
void fold_quarters(Accumulator<Source>* __restrict sums, const QuarterRows<Source>& quarters, int64_t count) {
  using Acc = Accumulator<Source>;
  constexpr int kPacks = 64 / (Pack<Acc>::kSize * sizeof(Source)), kElements = kPacks * Pack<Acc>::kSize;
  const auto take = [&](Pack<Acc>* taken, int quarter, int64_t at) {
#pragma GCC unroll 4
    for (int p = 0; p < kPacks; p++) avx2::load(taken[p], quarters.rows[quarter][0] + at + p * Pack<Acc>::kSize);
#pragma GCC unroll 12
    for (int r = 1; r < kCount; r++) {
#pragma GCC unroll 4
      for (int p = 0; p < kPacks; p++) {
        Pack<Acc> next;
        avx2::load(next, quarters.rows[quarter][r] + at + p * Pack<Acc>::kSize);
        avx2::add(taken[p], next);
      }
    }
  };
  const auto merge = [](Pack<Acc>* a, const Pack<Acc>* b) {
#pragma GCC unroll 4
    for (int p = 0; p < kPacks; p++) avx2::add(a[p], b[p]);
  };
  int64_t i = 0;
  for (; i + kElements <= count; i += kElements) {
    Pack<Acc> even[kPacks], odd[kPacks], other[kPacks];
    take(even, 0, i);
    take(other, 2, i);
    merge(even, other);
    take(odd, 1, i);
    take(other, 3, i);
    merge(odd, other);
    merge(even, odd);
    std::memcpy(sums + i, even, sizeof even);
  }
  for (; i < count; i++) {
    Acc taken[4];
    for (int k = 0; k < 4; k++) {
      taken[k] = convert<Acc>(quarters.rows[k][0][i]);
      for (int r = 1; r < kCount; r++) taken[k] += convert<Acc>(quarters.rows[k][r][i]);
    }
    sums[i] = (taken[0] + taken[2]) + (taken[1] + taken[3]);
  }
}

template <class Source>
void fold_quarters(Accumulator<Source>* sums, const QuarterRows<Source>& quarters, int64_t count) {
  with_count(typename QuarterRows<Source>::Counts(), quarters.rounds,
             [&]<int kCount>() { fold_quarters<kCount>(sums, quarters, count); });
}

// ---- rows

template <class Source>
void sum_rows(RowLeaves<Source> leaves, Accumulator<Source>* lanes, Accumulator<Source>* values) {
  constexpr int64_t kShortBytes = 4096;
  const bool streams = leaves.streams && leaves.bytes() > kShortBytes;
  for (int64_t row = 0; row < leaves.num_rows; row++) {
    leaves.read_ahead(row);
    values[row] = LeafSum<Source>::sum(leaves[row], leaves.length, leaves.num_lanes, streams, lanes);
  }
}

}  // namespace gpureduce::cpu
