// The five presets. Names of variables are those of the classic scripts, so that checkpoints fit.
#include "trainer/model/presets.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/exit_codes.h"
#include "base/nearest.h"
#include "base/str_cat.h"

namespace trainer {
namespace {

constexpr int64_t kPixels = 784;
constexpr int64_t kClasses = 10;
constexpr int64_t kDecayExamples = 60000;  // the whole MNIST training file

Initializer Constant(float value) {
  return {.kind = Initializer::Kind::kConstant, .value = value, .stddev = 0.0f};
}
Initializer Normal(float stddev) {
  return {.kind = Initializer::Kind::kNormal, .value = 0.0f, .stddev = stddev};
}
Initializer TruncatedNormal(float stddev) {
  return {.kind = Initializer::Kind::kTruncatedNormal, .value = 0.0f, .stddev = stddev};
}

LayerSpec Dense(std::string name, int64_t units, Initializer weights, float bias = 0.0f) {
  LayerSpec layer;
  layer.kind = LayerKind::kDense;
  layer.name = std::move(name);
  layer.units = units;
  layer.weights_init = weights;
  layer.bias_init = Constant(bias);
  return layer;
}

LayerSpec Activation(LayerKind kind) {
  LayerSpec layer;
  layer.kind = kind;
  return layer;
}

LayerSpec Named(LayerSpec layer, std::string weights_name, std::string bias_name) {
  layer.weights_name = std::move(weights_name);
  layer.bias_name = std::move(bias_name);
  return layer;
}

LayerSpec WithL2(LayerSpec layer) {
  layer.l2 = true;
  return layer;
}

// What mnist-mlp and lenet5 share besides the network.
TrainingSpec DecayedSgd(float rate) {
  TrainingSpec spec;
  spec.model.l2 = 0.0001f;
  spec.schedule = {.rate = rate, .decay = 0.99f, .decay_steps = 0, .staircase = false};
  spec.decay_examples = kDecayExamples;
  spec.ema_decay = 0.99f;
  spec.batch_size = 100;
  spec.train_steps = 10000;
  return spec;
}

TrainingSpec MnistMlp() {
  TrainingSpec spec = DecayedSgd(0.001f);
  spec.model.input_shape = {kPixels};
  spec.model.layers = {WithL2(Dense("layer1", 500, TruncatedNormal(0.1f))),
                       Activation(LayerKind::kRelu),
                       WithL2(Dense("layer2", kClasses, TruncatedNormal(0.1f)))};
  return spec;
}

TrainingSpec DistMnist() {
  TrainingSpec spec;
  spec.lines = LineStyle::kDistMnist;
  spec.model.input_shape = {kPixels};
  spec.model.layers = {Named(Dense("", 100, TruncatedNormal(1.0f / 28.0f)), "hid_w", "hid_b"),
                       Activation(LayerKind::kRelu),
                       Named(Dense("", kClasses, TruncatedNormal(0.1f)), "sm_w", "sm_b")};
  spec.model.loss = LossKind::kClippedSoftmaxCrossEntropy;
  spec.model.reduction = LossReduction::kSum;
  spec.optimizer.kind = OptimizerKind::kAdam;
  spec.schedule.rate = 0.01f;
  spec.train_steps = 200;
  return spec;
}

TrainingSpec SigmoidMnist() {
  TrainingSpec spec;
  spec.lines = LineStyle::kSigmoidMnist;
  spec.model.input_shape = {kPixels};
  spec.model.layers = {
      Named(Dense("", 100, Normal(1.0f)), "weights/Variable", "biases/Variable"),
      Activation(LayerKind::kSigmoid),
      Named(Dense("", kClasses, Normal(1.0f)), "weights/Variable_1", "biases/Variable_1")};
  spec.schedule.rate = 0.001f;
  spec.epochs = 20;
  return spec;
}

TrainingSpec LinearRegression() {
  TrainingSpec spec;
  spec.data = TrainingData::kLinear;
  spec.lines = LineStyle::kLinearRegression;
  spec.model.input_shape = {1};
  LayerSpec line = Named(Dense("", 1, Normal(1.0f)), "weight", "biase");
  line.bias_init = Normal(1.0f);
  line.vector_weights = true;
  spec.model.layers = {std::move(line)};
  spec.model.loss = LossKind::kMeanSquaredError;
  spec.schedule.rate = 1e-5f;
  spec.batch_size = 1;
  spec.train_steps = 1000000;
  return spec;
}

LayerSpec Conv(std::string name, int64_t filters) {
  LayerSpec layer = Named(Dense(std::move(name), filters, TruncatedNormal(0.1f)), "weight", "bias");
  layer.kind = LayerKind::kConv2d;
  layer.kernel = 5;
  return layer;
}

LayerSpec Pool() {
  LayerSpec layer = Activation(LayerKind::kMaxPool);
  layer.kernel = 2;
  layer.stride = 2;
  return layer;
}

TrainingSpec Lenet5() {
  TrainingSpec spec = DecayedSgd(0.01f);
  spec.model.input_shape = {28, 28, 1};
  LayerSpec dropout = Activation(LayerKind::kDropout);
  dropout.rate = 0.5f;
  const LayerSpec relu = Activation(LayerKind::kRelu);
  spec.model.layers = {
      Conv("layer1-conv1", 32),
      relu,
      Pool(),
      Conv("layer3-conv2", 64),
      relu,
      Pool(),
      Activation(LayerKind::kFlatten),
      WithL2(Named(Dense("layer5-fc1", 512, TruncatedNormal(0.1f), 0.1f), "weight", "bias")),
      relu,
      dropout,
      WithL2(Named(Dense("layer6-fc2", kClasses, TruncatedNormal(0.1f), 0.1f), "weight", "bias"))};
  return spec;
}

struct Preset {
  std::string_view name;
  TrainingSpec (*make)();
};
constexpr Preset kPresets[] = {{"mnist-mlp", MnistMlp},
                               {"dist-mnist", DistMnist},
                               {"sigmoid-mnist", SigmoidMnist},
                               {"linear-regression", LinearRegression},
                               {"lenet5", Lenet5}};

}  // namespace

LearningRateSchedule ResolvedSchedule(const TrainingSpec& spec) {
  LearningRateSchedule schedule = spec.schedule;
  if (spec.decay_examples > 0) {
    schedule.decay_steps =
        std::max<int64_t>(1, spec.decay_examples / std::max<int64_t>(1, spec.batch_size));
  }
  return schedule;
}

int64_t TrainSteps(const TrainingSpec& spec, int64_t examples_per_epoch) {
  if (spec.epochs <= 0) return spec.train_steps;
  const int64_t batches = examples_per_epoch / std::max<int64_t>(1, spec.batch_size);
  return spec.epochs * std::max<int64_t>(1, batches);
}

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

absl::StatusOr<TrainingSpec> MakePreset(std::string_view name) {
  for (const Preset& preset : kPresets) {
    if (preset.name != name) continue;
    TrainingSpec spec = preset.make();
    spec.model.name = std::string(name);
    return spec;
  }
  const std::vector<std::string> names = PresetNames();
  const std::string nearest = base::Nearest(name, names);
  return base::UsageError(
      base::StrCat("unknown model '", name, "'",
                   nearest.empty() ? "" : base::StrCat(" (did you mean '", nearest, "'?)"),
                   "; the presets are ", absl::StrJoin(names, ", ")));
}

}  // namespace trainer
