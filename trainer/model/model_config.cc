// YAML to TrainingSpec. The only place under trainer/ that includes yaml-cpp, with yaml_map.
#include "trainer/model/model_config.h"

#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/model/device_name.h"
#include "trainer/model/model.h"
#include "trainer/model/yaml_map.h"

namespace trainer {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;
constexpr double kNoLimit = std::numeric_limits<float>::max();
constexpr int64_t kDefaultDecayExamples =
    60000;  // without decay_steps: the size of the MNIST training file

const std::vector<std::string>& LayerTypes() {
  static const auto* const names = new std::vector<std::string>{
      "dense", "conv2d", "maxpool", "relu", "sigmoid", "tanh", "dropout", "flatten"};
  return *names;
}

// A number (a constant), or one of {constant: x}, {normal: stddev}, {truncated_normal: stddev}.
void ReadInitializer(YamlMap& layer, const char* key, YamlProblems* problems, Initializer* init) {
  const YAML::Node node = layer.Get(key);
  if (!node.IsDefined()) return;
  double constant = 0.0;
  if (node.IsScalar() && absl::SimpleAtod(node.Scalar(), &constant)) {
    *init = {Initializer::Kind::kConstant, static_cast<float>(constant), 0.0f};
    return;
  }
  if (!node.IsMap() || node.size() != 1) {
    layer.Problem(node, base::StrCat(key,
                                     " must be a number, {constant: x}, {normal: stddev} or "
                                     "{truncated_normal: stddev}"));
    return;
  }
  YamlMap map(node, key, problems);
  const auto read = [&](const char* kind_name, Initializer::Kind kind, double least, float* value) {
    if (!map.Has(kind_name)) return;
    *init = {kind, 0.0f, 0.0f};
    map.Read(kind_name, least, kNoLimit, value);
  };
  read("constant", Initializer::Kind::kConstant, -kNoLimit, &init->value);
  read("normal", Initializer::Kind::kNormal, 0.0, &init->stddev);
  read("truncated_normal", Initializer::Kind::kTruncatedNormal, 0.0, &init->stddev);
  map.Finish();
}

void ReadPadding(YamlMap& map, LayerSpec& layer) {
  map.ReadChoice("padding", {"same", "valid"}, [&](size_t i) { layer.same_padding = i == 0; });
}

void ReadWeights(YamlMap& map, YamlProblems* problems, LayerSpec& layer) {
  layer.weights_init = {Initializer::Kind::kTruncatedNormal, 0.0f, 0.1f};
  layer.l2 = true;
  const bool is_conv = layer.kind == LayerKind::kConv2d;
  map.Read("units", 1, &layer.units);
  if (is_conv) map.Read("filters", 1, &layer.units);
  ReadInitializer(map, "weights", problems, &layer.weights_init);
  ReadInitializer(map, "bias", problems, &layer.bias_init);
  map.Read("l2", &layer.l2);
  map.Read("weights_name", &layer.weights_name);
  map.Read("bias_name", &layer.bias_name);
}

void ReadDevice(YamlMap& map, LayerSpec& layer) {
  map.Read("device", &layer.device);
  if (layer.device.empty()) return;
  const absl::Status status = ParseDeviceName(layer.device).status();
  if (!status.ok()) map.Problem(map.Get("device"), std::string(status.message()));
}

// The settings that belong to the layer's type; others are unknown keys.
void ReadSettings(YamlMap& map, YamlProblems* problems, LayerSpec& layer) {
  switch (layer.kind) {
    case LayerKind::kDense:
      return ReadWeights(map, problems, layer);
    case LayerKind::kConv2d:
      ReadWeights(map, problems, layer);
      map.Read("kernel", 1, &layer.kernel);
      map.Read("stride", 1, &layer.stride);
      return ReadPadding(map, layer);
    case LayerKind::kMaxPool:
      layer.kernel = 2;
      map.Read("kernel", 1, &layer.kernel);
      layer.stride = layer.kernel;
      map.Read("stride", 1, &layer.stride);
      return ReadPadding(map, layer);
    case LayerKind::kDropout:
      layer.rate = 0.5f;
      return map.Read("rate", 0.0, 0.999, &layer.rate);
    default:
      return;
  }
}

std::optional<LayerSpec> ReadLayer(const YAML::Node& node, int number, YamlProblems* problems) {
  const std::string where = base::StrCat("layer ", number);
  LayerSpec layer;
  if (node.IsScalar()) {
    YAML::Node map;
    map["type"] = node;
    return ReadLayer(map, number, problems);
  }
  YamlMap map(node, where, problems);
  if (!node.IsMap() || !map.Has("type")) {
    map.Problem(node, "must be a type such as relu, or a mapping with a type");
    return std::nullopt;
  }
  bool known = false;
  map.ReadChoice("type", LayerTypes(), [&](size_t i) {
    layer.kind = static_cast<LayerKind>(i);
    known = true;
  });
  if (!known) return std::nullopt;
  map.Read("name", &layer.name);
  ReadSettings(map, problems, layer);
  ReadDevice(map, layer);
  map.Finish();
  return layer;
}

void ReadLayers(YamlMap& map, YamlProblems* problems, ModelSpec& model) {
  const YAML::Node node = map.Get("layers");
  if (!node.IsDefined()) return;
  if (!node.IsSequence()) return map.Problem(node, "layers must be a list");
  model.layers.clear();
  int number = 0;
  int with_weights = 0;
  for (const YAML::Node& item : node) {
    std::optional<LayerSpec> layer = ReadLayer(item, ++number, problems);
    if (!layer) continue;
    const bool has_weights = layer->kind == LayerKind::kDense || layer->kind == LayerKind::kConv2d;
    if (has_weights && ++with_weights && layer->name.empty()) {
      layer->name = base::StrCat("layer", with_weights);
    }
    model.layers.push_back(*std::move(layer));
  }
}

void ReadInputShape(YamlMap& map, ModelSpec& model) {
  const YAML::Node node = map.Get("input_shape");
  if (!node.IsDefined()) return;
  if (!node.IsSequence()) return map.Problem(node, "input_shape must be a list such as [784]");
  model.input_shape.clear();
  for (const YAML::Node& item : node) {
    int64_t extent = 0;
    if (!item.IsScalar() || !absl::SimpleAtoi(item.Scalar(), &extent) || extent < 1) {
      return map.Problem(item, "input_shape must hold whole numbers of at least 1");
    }
    model.input_shape.push_back(extent);
  }
}

void ReadOptimizer(YamlMap& map, YamlProblems* problems, OptimizerOptions& optimizer) {
  const YAML::Node node = map.Get("optimizer");
  if (!node.IsDefined()) return;
  const std::vector<std::string> names = {"sgd", "momentum", "adam", "adagrad"};
  const auto choose = [&](size_t i) { optimizer.kind = static_cast<OptimizerKind>(i); };
  if (!node.IsMap()) return map.ReadChoice("optimizer", names, choose);
  YamlMap settings(node, "optimizer", problems);
  settings.ReadChoice("name", names, choose);
  settings.Read("momentum", 0.0, 1.0, &optimizer.momentum);
  settings.Read("beta1", 0.0, 0.999999, &optimizer.beta1);
  settings.Read("beta2", 0.0, 0.9999999, &optimizer.beta2);
  settings.Read("epsilon", 0.0, kNoLimit, &optimizer.epsilon);
  settings.Read("initial_accumulator_value", 0.0, kNoLimit, &optimizer.initial_accumulator_value);
  settings.Finish();
}

void ReadModel(YamlMap& map, YamlProblems* problems, ModelSpec& model) {
  map.Read("name", &model.name);
  ReadInputShape(map, model);
  ReadLayers(map, problems, model);
  map.ReadChoice("loss", {"softmax_cross_entropy", "clipped_softmax_cross_entropy", "mse"},
                 [&](size_t i) { model.loss = static_cast<LossKind>(i); });
  map.ReadChoice("reduction", {"mean", "sum"},
                 [&](size_t i) { model.reduction = static_cast<LossReduction>(i); });
  map.Read("l2", 0.0, kNoLimit, &model.l2);
}

void ReadTraining(YamlMap& map, YamlProblems* problems, TrainingSpec& spec) {
  ReadOptimizer(map, problems, spec.optimizer);
  map.Read("learning_rate", 0.0, kNoLimit, &spec.schedule.rate);
  map.Read("learning_rate_decay", 0.0, 1.0, &spec.schedule.decay);
  if (map.Has("decay_steps")) {
    spec.decay_examples = 0;
    map.Read("decay_steps", 1, &spec.schedule.decay_steps);
  }
  map.Read("staircase", &spec.schedule.staircase);
  map.Read("ema_decay", 0.0, 1.0, &spec.ema_decay);
  map.Read("clip_norm", 0.0, kNoLimit, &spec.clip_norm);
  map.Read("batch_size", 1, &spec.batch_size);
  if (map.Has("train_steps")) spec.epochs = 0;
  map.Read("train_steps", 1, &spec.train_steps);
  map.Read("epochs", 1, &spec.epochs);
  map.ReadChoice("data", {"mnist", "linear"},
                 [&](size_t i) { spec.data = static_cast<TrainingData>(i); });
}

TrainingSpec StartingPoint(YamlMap& map, std::string_view origin) {
  TrainingSpec spec;
  spec.decay_examples = kDefaultDecayExamples;
  spec.model.name = std::string(origin);
  map.ReadChoice("preset", PresetNames(), [&](size_t i) { spec = *MakePreset(PresetNames()[i]); });
  return spec;
}

absl::StatusOr<TrainingSpec> Interpret(const YAML::Node& root, std::string_view origin) {
  if (!root.IsMap()) {
    return base::UsageError(base::StrCat(
        origin,
        ": must be a mapping of settings, e.g. `preset: mnist-mlp`, or input_shape and "
        "layers"));
  }
  YamlProblems problems;
  YamlMap map(root, "", &problems);
  TrainingSpec spec = StartingPoint(map, origin);
  ReadModel(map, &problems, spec.model);
  ReadTraining(map, &problems, spec);
  map.Finish();
  if (!problems.empty()) return base::UsageError(problems.Report(origin));
  const absl::Status model = Model::Create(spec.model).status();
  if (!model.ok()) return base::UsageError(base::StrCat(origin, ": ", model.message()));
  return spec;
}

}  // namespace

absl::StatusOr<TrainingSpec> ParseTrainingSpec(std::string_view yaml, std::string_view origin) {
  try {
    return Interpret(YAML::Load(std::string(yaml)), origin);
  } catch (const YAML::Exception& error) {
    return base::UsageError(base::StrCat(origin, ":", error.mark.line + 1, ": ", error.msg));
  }
}

absl::StatusOr<TrainingSpec> LoadTrainingSpec(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (file) {
    text.resize(kMaxFileBytes + 1);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
  }
  if (!file.eof()) {
    const bool too_large = static_cast<int64_t>(text.size()) > kMaxFileBytes;
    return base::UsageError(
        base::StrCat("--config: cannot read ", path,
                     too_large ? ": larger than 1 MiB" : ": no such file, or it may not be read"));
  }
  return ParseTrainingSpec(text, path);
}

}  // namespace trainer
