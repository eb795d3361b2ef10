#include "trainer/model/batch_check.h"

#include <cmath>

#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"

namespace trainer {
namespace {

// What the sum of a batch's losses is multiplied with, as the model's reduction says.
double LossScale(const Model& model, int64_t batch) {
  if (model.spec().reduction == LossReduction::kSum) return 1.0;
  const bool squared_error = model.spec().loss == LossKind::kMeanSquaredError;
  return 1.0 / static_cast<double>(batch * (squared_error ? model.output_size() : 1));
}

}  // namespace

absl::Status CheckSize(std::string_view what, size_t found, int64_t expected) {
  if (found == static_cast<size_t>(expected)) return absl::OkStatus();
  return base::UsageError(
      base::StrCat(what, " hold ", found, " elements where ", expected, " are needed"));
}

absl::Status CheckExamples(const Model& model, int64_t largest, const Batch& batch) {
  if (batch.size < 1 || batch.size > largest) {
    return base::UsageError(base::StrCat("a batch of ", batch.size,
                                         " examples for a program compiled for 1 to ", largest));
  }
  return CheckSize("inputs", batch.inputs.size(), batch.size * model.input_size());
}

absl::Status CheckBatch(const Model& model, int64_t largest, const Batch& batch,
                        std::span<const float> parameters) {
  RETURN_IF_ERROR(CheckExamples(model, largest, batch));
  return CheckSize("parameters", parameters.size(), model.parameter_count());
}

absl::Status CheckTargets(const Model& model, const Batch& batch) {
  if (model.spec().loss == LossKind::kMeanSquaredError) {
    return CheckSize("targets", batch.targets.size(), batch.size * model.output_size());
  }
  RETURN_IF_ERROR(CheckSize("labels", batch.labels.size(), batch.size));
  const auto classes = static_cast<uint32_t>(model.output_size());
  for (const int32_t label : batch.labels) {
    if (static_cast<uint32_t>(label) >= classes) {
      return base::DataError(
          base::StrCat("label ", label, " for a model of ", classes, " classes"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGradients(const Model& model, const ProgramOptions& options, const Batch& batch,
                            std::span<const float> parameters, std::span<const float> gradients) {
  if (!options.training) {
    return base::UsageError("gradients asked of a program compiled for evaluation");
  }
  RETURN_IF_ERROR(CheckBatch(model, options.batch_size, batch, parameters));
  RETURN_IF_ERROR(CheckTargets(model, batch));
  return CheckSize("gradients", gradients.size(), model.parameter_count());
}

absl::StatusOr<float> LossOfSums(const Model& model, int64_t batch, double losses, double squares) {
  const auto loss =
      static_cast<float>(losses * LossScale(model, batch) + 0.5 * model.spec().l2 * squares);
  if (!std::isfinite(loss)) return base::NumericError(base::StrCat("the loss is ", loss));
  return loss;
}

}  // namespace trainer
