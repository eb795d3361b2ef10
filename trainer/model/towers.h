// Towers: several copies of a model side by side, a batch each, their gradients averaged into one.
// PURE: knows backends only by their interface.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/model/backend.h"
#include "trainer/model/model.h"

namespace trainer {

// A Program of `towers` Programs, each compiled for options.batch_size examples and run on a thread
// of its own, so it takes batches of up to towers · batch_size examples: example i goes to tower
// i / ceil(N / towers). The loss and every variable's gradient are the towers' averages, weighted
// by their numbers of examples where the model's reduction is the mean: the same as one large
// batch.
absl::StatusOr<std::unique_ptr<Program>> CompileTowers(Backend& backend,
                                                       std::shared_ptr<const Model> model,
                                                       const ProgramOptions& options, int towers);

}  // namespace trainer
