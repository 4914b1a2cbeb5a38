// Tuning numbers: what each is for, and the measurement that chose it where there is one. None can change a result.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpureduce::policy {

// 8 blocks of 256 threads fill a multiprocessor; the smallest grid that still keeps every one busy to the end.
inline constexpr int kThreads = 256;
inline constexpr int kBlocksPerSm = 4;

// Blocks of each multiprocessor that ask for what they read first before the kernel in front has ended, and how much of
// long rows (benchmarks/results/variants.md). Blocks that come later have nothing to wait for. Inputs of up to
// kMinAheadBytes are not asked for: they gain nothing (4096 float32: 1.20 us either way). Of columns only inputs beyond
// kCachedBytes: the narrow tiles of others are many pieces, which take longer to ask for.
inline constexpr int kAheadRowsBlocksPerSm = 8, kAheadBlocksPerSm = 4, kAheadSegmentsBlocksPerSm = 2;
inline constexpr int64_t kAheadBytes = 8192, kMinAheadBytes = 1 << 20;

// Rows kernels. With this many rows for each multiprocessor a block takes all leaves of a row by itself.
inline constexpr int kWholeRowsPerSm = 4;
// Otherwise a block takes as many leaves as leave this many blocks for each multiprocessor.
inline constexpr int kLeafBlocksPerSm = 16;

// Between these the blocks of a call are one wave, and those of the next one that came early would be unevenly spread:
// 512 blocks of var over 2^28 elements took 289 us (float32) and 150 (bfloat16) in a row of calls, and take 245 and 129
// (benchmarks/results/variants.md). The ends are no result of a sweep: fewer blocks leave places enough, and no more
// than eight fit a multiprocessor.
inline constexpr int kFewBlocksPerSm = 2, kMostBlocksPerSm = 8;

// Where the order does not bind, rows longer than this are cut into leaves of their own, multiples of this many bytes
// and so many that each multiprocessor gets this many blocks.
inline constexpr int64_t kMaxLeafRowBytes = 32768;
inline constexpr int64_t kFreeLeafStep = 4096;
inline constexpr int kFreeBlocksPerSm = 8;
// Where the order does not bind, a leaf with this many vectors for each thread is walked by the largest block.
inline constexpr int64_t kVectorsPerFreeThread = 4;

// Short rows: threads for each multiprocessor that are to be had before one takes more than a vector of a row (64 to
// 512 make no difference, 1024 is slower), and warps that are to have a tile before any gets a larger one (4 is slower,
// 32 is no faster; benchmarks/results/variants.md).
inline constexpr int64_t kMinShortThreadsPerSm = 128;
inline constexpr int64_t kShortWarpsPerSm = 16;
// Staged rows: as long as that at most, which is what a warp copies at once.
inline constexpr int64_t kMaxShortRowBytes = 4096;

// Segments shorter than this leave too many vectors that pass from one to the next; rows shorter than that leave a
// block too little to do.
inline constexpr int64_t kMinSegmentBytes = 64;
inline constexpr int64_t kMinChainBytes = 2048;

// Thin: always where outputs have up to so many elements, and where threads are enough to keep each multiprocessor's
// memory busy; beyond so many rows, of an order that is free, blocks share them better.
inline constexpr int kThinAlways = 4;
inline constexpr int64_t kMinThinThreadsPerSm = 448;
inline constexpr int64_t kMinShiftedThinThreadsPerSm = 160;  // with twice the vectors in flight
inline constexpr int64_t kMaxThinLength = 256;
// Two vectors are loaded for each of a shifted row. The columns kernel does with one, and is as fast with so many rows
// (bfloat16 191: 47 us, thin 69); where packed or single values are kept, with twice as many (int8 95: 59 us, thin 32).
inline constexpr int64_t kMaxShiftedThinLength = 64, kMaxFreeShiftedThinLength = 128;
// A block's stack: with the memory that it stores through, four blocks fit a multiprocessor, and one the smallest
// cards.
inline constexpr int64_t kMaxThinSharedBytes = 48 * 1024;

// Columns. A tile's row in vectors: wide rows are read at the speed of memory, and below 256 bytes streaming slows
// down; input that the L2 cache holds may be read in pieces of a sector.
inline constexpr int64_t kMaxTileVectors = 256;
inline constexpr int64_t kMinStreamedTileVectors = 16;
inline constexpr int64_t kMinTileVectors = 2;
inline constexpr int64_t kCachedBytes = 4 << 20;
// One wave of blocks: so many fit a multiprocessor.
inline constexpr int kColumnBlocksPerSm = 2;
// Narrow rows are joined up to so many vectors.
inline constexpr int64_t kMaxJoinedVectors = 64;
// Rows that a thread takes at least where blocks may share them at will.
inline constexpr int64_t kMinFreeRounds = 4;

// Tiles. A block reads this many contiguous bytes of one position, less where that leaves multiprocessors idle:
// below 128 bytes a cache line is read in pieces.
inline constexpr int kTileRowBytes = 512;
inline constexpr int kMinTileRowBytes = 128;
// Reductions of up to this many elements are done by one thread where there are outputs enough for all threads.
inline constexpr int kMaxLanesOfOneThread = 64;
inline constexpr int kMinThreadsPerSm = 512;
// A block that gets less than this to read is not worth its launch.
inline constexpr int64_t kMinBlockBytes = 8192;
// Lanes of one leaf over blocks: each more is one more partial result to fold.
inline constexpr int64_t kMaxLaneSplits = 32;

// Partial results that a thread of the last block may fold one after the other.
inline constexpr int64_t kMostSerialEntries = 16;
// Counters that a call may ask for: a stream has so many.
inline constexpr int64_t kMostCounters = 8192;

// Shared memory of a block of columns: two blocks fit a multiprocessor of 228 KiB, and one the smallest cards.
inline constexpr int64_t kMaxTileSharedBytes = 99 * 1024;

}  // namespace gpureduce::policy
