// One worker's step: a batch, the gradients of it, and the next variables.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>

#include "absl/status/statusor.h"
#include "trainer/data/input.h"
#include "trainer/model/backend.h"
#include "trainer/train/settings.h"
#include "trainer/train/strategy.h"

namespace trainer {

struct StepOutcome {
  StepResult result;
  float loss = 0;
  int64_t examples = 0;
};

// Where steps come from. Not thread-safe.
class TrainStep {
 public:
  // Steps of this process: compiles the model. `input` and `strategy` must outlive the object.
  static absl::StatusOr<std::unique_ptr<TrainStep>> Create(const Options& options,
                                                           const Settings& settings,
                                                           Backend& backend, Input* input,
                                                           TrainStrategy* strategy);
  virtual ~TrainStep() = default;

  // REQUIRES: strategy->Start has succeeded. kOutOfRange: the loss is NaN or Inf.
  virtual absl::StatusOr<StepOutcome> Run(std::stop_token stop) = 0;

  // Of the latest step, before the update; clipped. Overwritten by the next. Empty where another
  // process ran it or it was dropped.
  virtual std::span<const float> gradients() const = 0;
  virtual const Batch& batch() const = 0;
};

}  // namespace trainer
