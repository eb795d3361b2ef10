// Learning rate and moving-average decay as functions of the global step. PURE.
#pragma once

#include <cstdint>

namespace trainer {

// rate · decay^(step / decay_steps); the exponent is floored when `staircase`. decay_steps 0 or
// decay 1 = constant rate. (TensorFlow's exponential_decay.)
struct LearningRateSchedule {
  float rate = 0.001f;
  float decay = 1.0f;
  int64_t decay_steps = 0;  // global steps
  bool staircase = false;
};
float LearningRate(const LearningRateSchedule& schedule, int64_t global_step);

// min(decay, (1 + step) / (10 + step)): how TensorFlow's ExponentialMovingAverage warms up.
float EmaDecay(float decay, int64_t global_step);

}  // namespace trainer
