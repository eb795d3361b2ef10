// Builders of small models and random batches for tests and benchmarks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/model/backend.h"
#include "trainer/model/model.h"
#include "trainer/model/random.h"

namespace trainer {

inline LayerSpec DenseLayer(std::string name, int64_t units) {
  LayerSpec layer;
  layer.kind = LayerKind::kDense;
  layer.name = std::move(name);
  layer.units = units;
  layer.weights_init = {.kind = Initializer::Kind::kNormal, .value = 0.0f, .stddev = 0.3f};
  layer.bias_init = {.kind = Initializer::Kind::kNormal, .value = 0.0f, .stddev = 0.3f};
  layer.l2 = true;
  return layer;
}

inline LayerSpec ConvLayer(std::string name, int64_t filters, int64_t kernel, int64_t stride = 1,
                           bool same_padding = true) {
  LayerSpec layer = DenseLayer(std::move(name), filters);
  layer.kind = LayerKind::kConv2d;
  layer.kernel = kernel;
  layer.stride = stride;
  layer.same_padding = same_padding;
  return layer;
}

inline LayerSpec PlainLayer(LayerKind kind, int64_t window = 0, int64_t stride = 1,
                            bool same_padding = true) {
  LayerSpec layer;
  layer.kind = kind;
  layer.kernel = window;
  layer.stride = stride;
  layer.same_padding = same_padding;
  return layer;
}

inline LayerSpec DropoutLayer(float rate) {
  LayerSpec layer = PlainLayer(LayerKind::kDropout);
  layer.rate = rate;
  return layer;
}

// Owns what a Batch borrows.
struct OwnedBatch {
  std::vector<float> inputs;
  std::vector<int32_t> labels;
  std::vector<float> targets;
  int64_t size = 0;

  // Examples [begin, begin + count).
  Batch Part(const Model& model, int64_t begin, int64_t count) const {
    const auto part = [&](const auto& values, int64_t width) {
      return std::span(values).subspan(static_cast<size_t>(begin * width),
                                       static_cast<size_t>(count * width));
    };
    Batch batch;
    batch.size = count;
    batch.inputs = part(inputs, model.input_size());
    batch.labels = part(labels, 1);
    batch.targets = part(targets, model.output_size());
    return batch;
  }
  Batch All(const Model& model) const { return Part(model, 0, size); }
};

// Inputs and targets from N(0, 1), labels uniform; drawn from `seed`.
inline OwnedBatch RandomBatch(const Model& model, int64_t size, uint64_t seed = 1) {
  RandomStream random(seed, "batch");
  OwnedBatch batch;
  batch.size = size;
  batch.inputs.resize(static_cast<size_t>(size * model.input_size()));
  batch.targets.resize(static_cast<size_t>(size * model.output_size()));
  for (float& value : batch.inputs) value = static_cast<float>(random.Normal());
  for (float& value : batch.targets) value = static_cast<float>(random.Normal());
  for (int64_t i = 0; i < size; ++i) {
    const auto classes = static_cast<uint64_t>(model.output_size());
    batch.labels.push_back(static_cast<int32_t>(random.Next() % classes));
  }
  return batch;
}

inline std::vector<float> InitialParameters(const Model& model, uint64_t seed = 1) {
  std::vector<float> parameters(static_cast<size_t>(model.parameter_count()));
  model.Initialize(seed, parameters);
  return parameters;
}

}  // namespace trainer
