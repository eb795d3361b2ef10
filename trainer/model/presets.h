// The built-in models with the defaults of the scripts that they come from. PURE.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/model/model.h"
#include "trainer/model/optimizer.h"
#include "trainer/model/schedule.h"

namespace trainer {

// What a model is trained on.
enum class TrainingData {
  kMnist,   // MNIST-format images and labels
  kLinear,  // y = 2x + 10 + 0.33·N(0,1), x ~ N(0,1), drawn as training goes
};

// Which of the classic scripts' lines a run prints.
enum class LineStyle { kMnistMlp, kDistMnist, kSigmoidMnist, kLinearRegression };

// Everything that a preset or a YAML file says about a training, before flags override it.
struct TrainingSpec {
  ModelSpec model;
  TrainingData data = TrainingData::kMnist;
  LineStyle lines = LineStyle::kMnistMlp;
  OptimizerOptions optimizer;
  LearningRateSchedule schedule;  // use ResolvedSchedule(): its decay_steps may follow the batch
  int64_t decay_examples = 0;     // > 0: schedule.decay_steps = decay_examples / batch_size
  float ema_decay = 0.0f;         // 0 = no moving averages
  float clip_norm = 0.0f;         // global norm that gradients are clipped to; 0 = off
  int64_t batch_size = 100;
  int64_t train_steps = 10000;  // global steps; used where epochs is 0
  int64_t epochs = 0;           // > 0: use TrainSteps() with the size of the data
};

// The schedule with decay_steps worked out from the batch size.
LearningRateSchedule ResolvedSchedule(const TrainingSpec& spec);

// Global steps to train: train_steps, or epochs over examples_per_epoch (whole batches an epoch).
int64_t TrainSteps(const TrainingSpec& spec, int64_t examples_per_epoch);

// "mnist-mlp", "dist-mnist", "sigmoid-mnist", "linear-regression", "lenet5".
std::vector<std::string> PresetNames();

// kInvalidArgument names the presets, and the nearest one, when there is none of that name.
absl::StatusOr<TrainingSpec> MakePreset(std::string_view name);

}  // namespace trainer
