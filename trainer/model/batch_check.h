// What every backend checks before it computes, and the loss of what it has summed up. PURE.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/model/backend.h"

namespace trainer {

// kInvalidArgument unless `found` elements are the `expected`; `what` is plural.
absl::Status CheckSize(std::string_view what, size_t found, int64_t expected);

// Size and inputs of a batch for a program compiled for 1 to `largest` examples.
absl::Status CheckExamples(const Model& model, int64_t largest, const Batch& batch);
// The same, and the parameters for it.
absl::Status CheckBatch(const Model& model, int64_t largest, const Batch& batch,
                        std::span<const float> parameters);

// Labels or targets, as the model's loss needs them. kDataLoss: a label outside of the classes.
absl::Status CheckTargets(const Model& model, const Batch& batch);

// All of that, and room for the gradients.
absl::Status CheckGradients(const Model& model, const ProgramOptions& options, const Batch& batch,
                            std::span<const float> parameters, std::span<const float> gradients);

// The loss of `batch` examples, of the sum of theirs and of the squares of what L2 holds down;
// NumericError where it is not finite.
absl::StatusOr<float> LossOfSums(const Model& model, int64_t batch, double losses, double squares);

}  // namespace trainer
