#include "trainer/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"

namespace trainer {
namespace {

void AddExample(std::span<const float> outputs, int32_t label, Evaluation& sum) {
  const auto largest = std::max_element(outputs.begin(), outputs.end());
  if (largest - outputs.begin() == label) sum.accuracy += 1;
  double total = 0;
  for (const float output : outputs) total += std::exp(static_cast<double>(output) - *largest);
  const double probability = std::exp(static_cast<double>(outputs[label]) - *largest) / total;
  sum.cross_entropy_sum -= std::log(std::clamp(probability, 1e-10, 1.0));
}

}  // namespace

absl::StatusOr<Evaluation> Evaluate(Program& program, const Model& model, const Dataset& dataset,
                                    std::span<const float> parameters, int64_t batch_size) {
  if (model.input_size() != dataset.example_size || dataset.size == 0) {
    return base::UsageError(absl::StrCat("the model takes ", model.input_size(),
                                         " inputs an example, the data set has ", dataset.size,
                                         " examples of ", dataset.example_size));
  }
  const int64_t classes = model.output_size();
  std::vector<float> inputs(batch_size * model.input_size());
  std::vector<float> outputs(batch_size * classes);
  std::vector<int32_t> labels(batch_size);
  Evaluation result;
  for (int64_t begin = 0; begin < dataset.size; begin += batch_size) {
    const int64_t count = std::min(batch_size, dataset.size - begin);
    const std::span<float> batch_inputs(inputs.data(), count * model.input_size());
    const std::span<int32_t> batch_labels(labels.data(), count);
    const std::span<float> batch_outputs(outputs.data(), count * classes);
    CopyExamples(dataset, begin, batch_inputs, batch_labels);
    RETURN_IF_ERROR(program.Forward({.size = count, .inputs = batch_inputs, .labels = batch_labels},
                                    parameters, batch_outputs));
    for (int64_t i = 0; i < count; ++i) {
      if (batch_labels[i] >= classes) {
        return base::UsageError(absl::StrCat("example ", begin + i, " has label ", batch_labels[i],
                                             "; the model has ", classes, " outputs"));
      }
      AddExample(batch_outputs.subspan(i * classes, classes), batch_labels[i], result);
    }
  }
  result.accuracy /= static_cast<double>(dataset.size);
  result.examples = dataset.size;
  return result;
}

}  // namespace trainer
