#include "trainer/report/summary_histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace trainer {
namespace {

constexpr double kSmallest = 1e-12;
constexpr double kLargest = 1e20;
constexpr double kGrowth = 1.1;

std::vector<double> PositiveLimits() {
  std::vector<double> limits;
  for (double limit = kSmallest; limit < kLargest; limit *= kGrowth) limits.push_back(limit);
  limits.push_back(std::numeric_limits<double>::max());
  return limits;
}

}  // namespace

const std::vector<double>& HistogramLimits() {
  static const std::vector<double>* const limits = [] {
    const std::vector<double> positive = PositiveLimits();
    auto* all = new std::vector<double>();
    for (auto it = positive.rbegin(); it != positive.rend(); ++it) all->push_back(-*it);
    all->push_back(0.0);
    all->insert(all->end(), positive.begin(), positive.end());
    return all;
  }();
  return *limits;
}

// A logarithm guesses the bucket, within one; a search would cost several times as much.
size_t HistogramBucket(double value) {
  const std::vector<double>& limits = HistogramLimits();
  const auto zero = static_cast<int64_t>(limits.size() / 2);
  static const double scale = 1.0 / std::log(kGrowth);
  static const double shift = std::log(kSmallest);
  const double magnitude = std::abs(value);
  int64_t guess = zero;
  if (magnitude >= kSmallest) {
    const auto steps = static_cast<int64_t>((std::log(magnitude) - shift) * scale);
    guess = value > 0 ? zero + 2 + steps : zero - 1 - steps;
  }
  const auto last = static_cast<int64_t>(limits.size()) - 1;
  guess = std::clamp(guess, int64_t{0}, last);
  while (guess < last && limits[static_cast<size_t>(guess)] <= value) ++guess;
  while (guess > 0 && limits[static_cast<size_t>(guess - 1)] > value) --guess;
  return static_cast<size_t>(guess);
}

event::Histogram MakeHistogram(std::span<const float> values) {
  const std::vector<double>& limits = HistogramLimits();
  std::vector<double> counts(limits.size());
  event::Histogram histogram;
  double smallest = std::numeric_limits<double>::max();
  double largest = -smallest;
  double num = 0.0;
  double sum = 0.0;
  double sum_squares = 0.0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const double wide = value;
    smallest = std::min(smallest, wide);
    largest = std::max(largest, wide);
    num += 1.0;
    sum += wide;
    sum_squares += wide * wide;
    counts[HistogramBucket(wide)] += 1.0;
  }
  if (num == 0.0) smallest = largest = 0.0;
  histogram.set_min(smallest);
  histogram.set_max(largest);
  histogram.set_num(num);
  histogram.set_sum(sum);
  histogram.set_sum_squares(sum_squares);
  for (size_t i = 0; i < counts.size(); ++i) {
    // Of a run of empty buckets only the last limit says anything.
    const bool next_is_empty_too = i + 1 < counts.size() && counts[i + 1] == 0.0;
    if (counts[i] == 0.0 && next_is_empty_too) continue;
    histogram.add_bucket_limit(limits[i]);
    histogram.add_bucket(counts[i]);
  }
  return histogram;
}

}  // namespace trainer
