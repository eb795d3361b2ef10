#include "operator/runtime/backoff.h"

#include <algorithm>

namespace runtime {
namespace {

constexpr double kSpread = 0.2;
constexpr int kMostDoublings = 40;  // beyond any ceiling

}  // namespace

absl::Duration BackoffDelay(absl::Duration first, absl::Duration max, int failures, double random) {
  if (failures <= 0) return absl::ZeroDuration();
  const int doublings = std::min(failures - 1, kMostDoublings);
  const absl::Duration even = std::min(first * (int64_t{1} << doublings), max);
  return even * (1.0 - kSpread + 2.0 * kSpread * random);
}

Jitter::Jitter(uint64_t seed) : engine_(seed != 0 ? seed : std::random_device{}()) {}

}  // namespace runtime
