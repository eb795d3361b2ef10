// Bodies of kernels that add many elements up. The order of additions depends on the sizes alone,
// so the same inputs give the same sums, bit by bit.
#pragma once

#include <cstdint>

#include "trainer/cuda/plugin/launch.h"

namespace trainer::cuda {

// partials[block] = Σ of this block's share of f(values), f(v) = v or v². Blocks take turns, so any
// number of them sees every element once.
template <typename From, bool kSquared>
struct SumBody {
  static constexpr int kThreads = 256;
  static constexpr int kPhases = 9;  // one that reads, eight that halve
  static constexpr int kSharedSize = kThreads;
  using Shared = double;

  const From* values;
  int64_t size;
  int64_t blocks;
  double* partials;

  TRAINER_CUDA_HD void operator()(int phase, int64_t block, int thread, double* shared) const {
    if (phase == 0) {
      double sum = 0.0;
      for (int64_t i = block * kThreads + thread; i < size; i += blocks * kThreads) {
        const double value = values[i];
        sum += kSquared ? value * value : value;
      }
      shared[thread] = sum;
      return;
    }
    AddAbove(shared, thread, kThreads >> phase);
    if (phase == kPhases - 1 && thread == 0) partials[block] = shared[0];
  }
};
using SumFloats = SumBody<float, false>;
using SumSquares = SumBody<float, true>;
using SumDoubles = SumBody<double, false>;

// Blocks that pay for a sum of `size` elements.
constexpr int64_t kMaxSumBlocks = 128;
inline int64_t SumBlocks(int64_t size) {
  constexpr int64_t kElements = 2048;  // of a block
  const int64_t blocks = (size + kElements - 1) / kElements;
  return blocks < 1 ? 1 : (blocks > kMaxSumBlocks ? kMaxSumBlocks : blocks);
}

// Column sums of g(rows, columns), first step: partials(parts, columns), part p of the rows summed
// in partials[p]. Block b: columns 32 · (b % groups) on, part b / groups.
struct ColumnSumsBody {
  static constexpr int kColumns = 32;  // a block's; neighbouring threads read neighbouring columns
  static constexpr int kLanes = 8;     // rows that a block reads at a time
  static constexpr int kThreads = kColumns * kLanes;
  static constexpr int kPhases = 2;
  static constexpr int kSharedSize = kThreads;
  using Shared = float;

  const float* g;
  int64_t rows;
  int64_t columns;
  int64_t parts;
  float* partials;

  TRAINER_CUDA_HD int64_t groups() const { return (columns + kColumns - 1) / kColumns; }
  TRAINER_CUDA_HD int64_t blocks() const { return groups() * parts; }

  TRAINER_CUDA_HD void operator()(int phase, int64_t block, int thread, float* shared) const {
    const int64_t part = block / groups();
    const int64_t column = block % groups() * kColumns + thread % kColumns;
    const int lane = thread / kColumns;
    if (phase == 0) {
      const int64_t end = rows * (part + 1) / parts;
      float sum = 0.0f;
      if (column < columns) {
        for (int64_t row = rows * part / parts + lane; row < end; row += kLanes) {
          sum += g[row * columns + column];
        }
      }
      shared[thread] = sum;
      return;
    }
    if (lane != 0 || column >= columns) return;
    float sum = 0.0f;
    for (int i = 0; i < kLanes; ++i) sum += shared[i * kColumns + thread];
    partials[part * columns + column] = sum;
  }
};

// Second step: sums(c) = Σ over parts.
struct ColumnPartsBody {
  const float* partials;
  int64_t parts;
  int64_t columns;
  float* sums;
  TRAINER_CUDA_HD void operator()(int64_t column) const {
    float sum = 0.0f;
    for (int64_t part = 0; part < parts; ++part) sum += partials[part * columns + column];
    sums[column] = sum;
  }
};

// Parts that pay for `rows` rows: short columns need no second level, tall ones many blocks.
inline int64_t ColumnParts(int64_t rows) {
  const int64_t parts = (rows + 255) / 256;
  return parts < 1 ? 1 : (parts > 64 ? 64 : parts);
}

}  // namespace trainer::cuda
