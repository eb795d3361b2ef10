// Histograms as TensorFlow counts them: exponential buckets, 10 % wider each. PURE.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trainer/report/event.pb.h"

namespace trainer {

// Upper limits of the buckets, ascending: -max, …, -1e-12, 0, 1e-12, 1.1e-12, …, below 1e20, max.
const std::vector<double>& HistogramLimits();

// The bucket of a finite value: the first whose limit is above it (the last takes the rest).
size_t HistogramBucket(double value);

// Counts the finite values; runs of empty buckets are joined.
event::Histogram MakeHistogram(std::span<const float> values);

}  // namespace trainer
