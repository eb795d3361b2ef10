// The points of the linear-regression example: y = 2x + 10 plus noise.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/data/random.h"

namespace trainer {

// An endless stream of points, the same for the same seed and stream. Not thread-safe.
class LinearPoints {
 public:
  // `stream` tells apart the points of several tasks that share a seed.
  explicit LinearPoints(uint64_t seed, uint64_t stream = 0) : random_(seed, stream) {}

  // Fills inputs with x ~ N(0, 1) and targets with 2x + 10 + 0.33 N(0, 1). REQUIRES: equal sizes.
  void Next(std::span<float> inputs, std::span<float> targets) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const float x = random_.Normal();
      inputs[i] = x;
      targets[i] = 2.0f * x + 10.0f + 0.33f * random_.Normal();
    }
  }

 private:
  Random random_;
};

}  // namespace trainer
