// Tuning numbers: what each is for, and the measurement that chose it where there is one. None can change a result.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpureduce::policy {

// 8 blocks of 256 threads fill a multiprocessor; the smallest grid that still keeps every one busy to the end.
inline constexpr int kThreads = 256;
inline constexpr int kBlocksPerSm = 4;

// Rows kernels. With this many rows for each multiprocessor a block takes all leaves of a row by itself.
inline constexpr int kWholeRowsPerSm = 4;
// So few leaves are left to one block. Two leaves by a cluster of two were about as fast: it is not settled.
inline constexpr int kLeavesOfOneBlock = 2;
// Otherwise a block takes as many leaves as leave this many blocks for each multiprocessor.
inline constexpr int kLeafBlocksPerSm = 16;

// Where the order does not bind, a leaf with this many vectors for each thread is walked by the largest block.
inline constexpr int64_t kVectorsPerFreeThread = 4;

// Tiles. A block reads this many contiguous bytes of one position, less where that leaves multiprocessors idle:
// below 128 bytes a cache line is read in pieces.
inline constexpr int kTileRowBytes = 512;
inline constexpr int kMinTileRowBytes = 128;
// Reductions of up to this many elements are done by one thread where there are outputs enough for all threads.
inline constexpr int kMaxLanesOfOneThread = 64;
inline constexpr int kMinThreadsPerSm = 512;
// A block that gets less than this to read is not worth its launch.
inline constexpr int64_t kMinBlockBytes = 16384;
// Lanes of one leaf over blocks: each more is one more partial result to fold.
inline constexpr int kMaxLaneSplits = 32;

// Shared memory of a tile's block: four blocks and more fit a multiprocessor.
inline constexpr std::size_t kMaxTileSharedBytes = 56 * 1024;

}  // namespace gpureduce::policy
