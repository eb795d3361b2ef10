// Softmax cross-entropy, its loss and its gradient in one pass over a row: a warp each.
#pragma once

#include <cmath>
#include <cstdint>

#include "trainer/cuda/plugin/launch.h"

namespace trainer::cuda {

// Of logits(rows, classes) against labels(rows): losses(rows), and gradient(rows, classes) = scale
// · d loss / d logits. clipped: probabilities below 1e-10 count as 1e-10, and their rows get no
// gradient. As SoftmaxCrossEntropy in trainer/cpu/kernels.h. Block b: row b.
struct SoftmaxCrossEntropyBody {
  static constexpr int kThreads = 32;
  static constexpr int kLevels = 5;  // halvings of 32
  static constexpr int kPhases = 1 + kLevels + 1 + kLevels + 1;
  static constexpr int kSharedSize = 2 * kThreads;  // largest logits, sums of exponentials
  using Shared = float;

  const float* logits;
  const int32_t* labels;
  int64_t classes;
  int clipped;
  float scale;
  float* losses;
  float* gradient;

  TRAINER_CUDA_HD void operator()(int phase, int64_t row, int thread, float* shared) const {
    const float* x = logits + row * classes;
    float* g = gradient + row * classes;
    float* largest = shared;
    float* sums = shared + kThreads;
    if (phase == 0) {
      float most = x[0];
      for (int64_t c = thread; c < classes; c += kThreads) most = x[c] > most ? x[c] : most;
      largest[thread] = most;
    } else if (phase <= kLevels) {
      const int reach = kThreads >> phase;
      if (thread < reach && largest[thread + reach] > largest[thread]) {
        largest[thread] = largest[thread + reach];
      }
    } else if (phase == kLevels + 1) {
      float sum = 0.0f;
      for (int64_t c = thread; c < classes; c += kThreads) {
        g[c] = expf(x[c] - largest[0]);
        sum += g[c];
      }
      sums[thread] = sum;
    } else if (phase < kPhases - 1) {
      AddAbove(sums, thread, kThreads >> (phase - kLevels - 1));
    } else {
      Finish(row, thread, largest[0], sums[0]);
    }
  }

 private:
  TRAINER_CUDA_HD void Finish(int64_t row, int thread, float largest, float sum) const {
    const int64_t label = labels[row];
    const float log_probability = (logits[row * classes + label] - largest) - logf(sum);
    const float log_clip = -23.0258509f;  // ln 1e-10
    const bool is_clipped = clipped != 0 && log_probability < log_clip;
    if (thread == 0) losses[row] = is_clipped ? -log_clip : -log_probability;
    const float factor = is_clipped ? 0.0f : scale / sum;
    const float at_label = is_clipped ? 0.0f : scale;
    float* g = gradient + row * classes;
    for (int64_t c = thread; c < classes; c += kThreads) {
      g[c] = g[c] * factor - (c == label ? at_label : 0.0f);
    }
  }
};

}  // namespace trainer::cuda
