// Bodies of kernels that compute each element alone: activations, dropout, the L2 term, squared
// error. Formulas as in trainer/cpu/kernels.h, their reference; y may be x where both are given.
#pragma once

#include <cmath>
#include <cstdint>

#include "trainer/cuda/plugin/launch.h"

namespace trainer::cuda {

struct AddBody {
  const float* a;
  const float* b;
  float* sum;
  TRAINER_CUDA_HD void operator()(int64_t i) const { sum[i] = a[i] + b[i]; }
};

struct ReluBody {
  const float* x;
  float* y;
  TRAINER_CUDA_HD void operator()(int64_t i) const {
    y[i] = x[i] < 0.0f ? 0.0f : x[i];  // NaN passes through
  }
};

struct ReluBackwardBody {
  const float* y;
  float* g;
  TRAINER_CUDA_HD void operator()(int64_t i) const { g[i] = y[i] > 0.0f ? g[i] : 0.0f; }
};

struct SigmoidBody {
  const float* x;
  float* y;
  TRAINER_CUDA_HD void operator()(int64_t i) const { y[i] = 1.0f / (1.0f + expf(-x[i])); }
};

struct SigmoidBackwardBody {
  const float* y;
  float* g;
  TRAINER_CUDA_HD void operator()(int64_t i) const { g[i] *= y[i] * (1.0f - y[i]); }
};

struct TanhBody {
  const float* x;
  float* y;
  TRAINER_CUDA_HD void operator()(int64_t i) const { y[i] = tanhf(x[i]); }
};

struct TanhBackwardBody {
  const float* y;
  float* g;
  TRAINER_CUDA_HD void operator()(int64_t i) const { g[i] *= 1.0f - y[i] * y[i]; }
};

// Drops the same elements as the CPU does for the same seed. The seed is read on the device, so
// that a captured graph takes the next step's.
struct DropoutBody {
  const float* x;
  float* y;
  const uint64_t* seed;
  uint64_t salt;       // the layer's
  uint32_t threshold;  // rate · 2^32
  float keep;          // 1 / (1 - rate)

  TRAINER_CUDA_HD static uint32_t Hash(uint32_t x) {
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    return x ^ (x >> 16);
  }
  TRAINER_CUDA_HD void operator()(int64_t i) const {
    const uint64_t own = *seed + salt;
    const uint32_t key = Hash(Hash(static_cast<uint32_t>(own)) ^ static_cast<uint32_t>(own >> 32));
    y[i] = Hash(static_cast<uint32_t>(i) ^ key) < threshold ? 0.0f : x[i] * keep;
  }
};

// g += l2 · w.
struct AddL2Body {
  float l2;
  const float* w;
  float* g;
  TRAINER_CUDA_HD void operator()(int64_t i) const { g[i] += l2 * w[i]; }
};

// losses = (y - target)², gradient = scale · 2 (y - target).
struct SquaredErrorBody {
  const float* y;
  const float* targets;
  float scale;
  float* losses;
  float* gradient;
  TRAINER_CUDA_HD void operator()(int64_t i) const {
    const float error = y[i] - targets[i];
    losses[i] = error * error;
    gradient[i] = 2.0f * scale * error;
  }
};

}  // namespace trainer::cuda
