// Learning rate and moving-average decay.
#include "trainer/model/schedule.h"

#include <algorithm>
#include <cmath>

namespace trainer {

float LearningRate(const LearningRateSchedule& schedule, int64_t global_step) {
  if (schedule.decay_steps <= 0 || schedule.decay == 1.0f) return schedule.rate;
  double exponent = static_cast<double>(global_step) / static_cast<double>(schedule.decay_steps);
  if (schedule.staircase) exponent = std::floor(exponent);
  return static_cast<float>(schedule.rate *
                            std::pow(static_cast<double>(schedule.decay), exponent));
}

float EmaDecay(float decay, int64_t global_step) {
  const double step = static_cast<double>(global_step);
  return std::min(decay, static_cast<float>((1.0 + step) / (10.0 + step)));
}

}  // namespace trainer
