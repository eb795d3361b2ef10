// How long to wait before the next try: doubling, with a ceiling and jitter.
#pragma once

#include <cstdint>
#include <random>

#include "absl/time/time.h"

namespace runtime {

// After the `failures`-th failure in a row (1, 2, …): first × 2^(failures - 1), at most `max`, then
// a fifth more or less as `random` (in [0, 1)) says. 0 failures: no wait.
absl::Duration BackoffDelay(absl::Duration first, absl::Duration max, int failures, double random);

// Random numbers in [0, 1). Not thread-safe.
class Jitter {
 public:
  // 0 = another sequence each time.
  explicit Jitter(uint64_t seed);
  double Next() { return distribution_(engine_); }

 private:
  std::mt19937_64 engine_;
  std::uniform_real_distribution<double> distribution_{0.0, 1.0};
};

}  // namespace runtime
