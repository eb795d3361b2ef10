// Accuracy and cross-entropy of a model on a whole data set.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"
#include "trainer/model/backend.h"

namespace trainer {

struct Evaluation {
  double accuracy = 0;           // share of examples whose largest output is the label's
  double cross_entropy_sum = 0;  // Σ −log(clip(softmax(outputs)[label], 1e-10, 1))
  int64_t examples = 0;
};

// Runs `program` over every example of `dataset` in batches of batch_size. parameters: the model's
// flat buffer. kInvalidArgument when the model's input does not fit the examples.
absl::StatusOr<Evaluation> Evaluate(Program& program, const Model& model, const Dataset& dataset,
                                    std::span<const float> parameters, int64_t batch_size);

}  // namespace trainer
