// Procedurally drawn digits 0-9 in the shape of MNIST (28x28, white on black), so that a first run
// needs no download: strokes with jittered control points, slant, size, thickness and noise.
#pragma once

#include <cstdint>

#include "trainer/data/dataset.h"

namespace trainer {

struct SynthesizeOptions {
  int64_t train_size = 60000;  // of the training file; ValidationSize() of them are for validation
  int64_t test_size = 10000;
  uint64_t seed = 1;
  DatasetParts parts;  // what is not asked for costs nothing and is null
};

// The same options give the same bytes on every machine: each example depends on the seed and its
// index alone, and the arithmetic is exact or correctly rounded IEEE single precision.
// REQUIRES: sizes >= 0 and below 2^31.
Datasets SynthesizeDigits(const SynthesizeOptions& options);

}  // namespace trainer
