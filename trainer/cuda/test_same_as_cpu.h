// For tests: models that between them use every layer, loss and option, and their comparison with
// the CPU backend, which is the reference.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/cpu/cpu_backend.h"
#include "trainer/cpu/test_models.h"
#include "trainer/cuda/resident_program.h"
#include "trainer/model/backend.h"
#include "trainer/model/optimizer.h"
#include "trainer/model/presets.h"

namespace trainer {

struct ModelCase {
  std::string name;
  std::shared_ptr<const Model> model;
  int64_t batch = 7;
};

inline ModelCase MakeCase(std::string name, std::vector<int64_t> input_shape,
                          std::vector<LayerSpec> layers,
                          LossKind loss = LossKind::kSoftmaxCrossEntropy,
                          LossReduction reduction = LossReduction::kMean, float l2 = 0.0f) {
  ModelSpec spec;
  spec.input_shape = std::move(input_shape);
  spec.layers = std::move(layers);
  spec.loss = loss;
  spec.reduction = reduction;
  spec.l2 = l2;
  return {std::move(name), std::make_shared<const Model>(*Model::Create(spec))};
}

inline ModelCase PresetCase(const std::string& preset, int64_t batch) {
  return {preset, std::make_shared<const Model>(*Model::Create(MakePreset(preset)->model)), batch};
}

// Small models: some seconds on a host, whatever runs them.
inline std::vector<ModelCase> SmallCases() {
  const auto kRelu = LayerKind::kRelu;
  const auto flatten = PlainLayer(LayerKind::kFlatten);
  LayerSpec unregularised = DenseLayer("a", 9);
  unregularised.l2 = false;
  LayerSpec steep = DenseLayer("steep", 4);  // rows whose probability is clipped
  steep.weights_init.stddev = 20.0f;
  // 19,600 elements of windows an example: more than fit at a time.
  ModelCase chunks =
      MakeCase("a convolution in two parts", {28, 28, 1},
               {ConvLayer("c", 1, 5), PlainLayer(LayerKind::kRelu), flatten, DenseLayer("a", 2)});
  chunks.batch = 900;
  return {
      MakeCase("one dense layer", {13}, {DenseLayer("a", 5)}),
      MakeCase("ReLU behind dense", {30},
               {DenseLayer("a", 80), PlainLayer(kRelu), DenseLayer("b", 5)}),
      MakeCase("the L2 term", {30}, {DenseLayer("a", 80), PlainLayer(kRelu), DenseLayer("b", 5)},
               LossKind::kSoftmaxCrossEntropy, LossReduction::kMean, 0.01f),
      MakeCase("the L2 term of some", {8}, {unregularised, DenseLayer("b", 3)},
               LossKind::kSoftmaxCrossEntropy, LossReduction::kSum, 0.1f),
      MakeCase("a sum over the batch", {6}, {DenseLayer("a", 3)}, LossKind::kSoftmaxCrossEntropy,
               LossReduction::kSum),
      MakeCase("clipped cross-entropy", {6}, {steep}, LossKind::kClippedSoftmaxCrossEntropy,
               LossReduction::kSum),
      MakeCase("mean squared error", {6}, {DenseLayer("a", 3)}, LossKind::kMeanSquaredError),
      MakeCase("summed squared error", {6}, {DenseLayer("a", 3)}, LossKind::kMeanSquaredError,
               LossReduction::kSum),
      MakeCase("sigmoid", {6},
               {DenseLayer("a", 11), PlainLayer(LayerKind::kSigmoid), DenseLayer("b", 3)}),
      MakeCase("tanh, twice", {6},
               {DenseLayer("a", 11), PlainLayer(LayerKind::kTanh), PlainLayer(LayerKind::kTanh),
                DenseLayer("b", 3)}),
      MakeCase("dropout", {6},
               {DenseLayer("a", 90), PlainLayer(kRelu), DropoutLayer(0.4f), DenseLayer("b", 3)}),
      MakeCase("dropout at both ends", {40},
               {DropoutLayer(0.3f), DenseLayer("a", 12), DropoutLayer(0.2f)}),
      MakeCase("more classes than threads", {6}, {DenseLayer("a", 77)}),
      MakeCase("a convolution", {6, 5, 2}, {ConvLayer("c", 3, 3), flatten, DenseLayer("a", 4)}),
      MakeCase("convolutions with stride, even windows and no padding", {9, 8, 2},
               {ConvLayer("c", 4, 2, 2), PlainLayer(kRelu), ConvLayer("d", 5, 3, 1, false),
                PlainLayer(LayerKind::kTanh), flatten, DenseLayer("a", 4)},
               LossKind::kSoftmaxCrossEntropy, LossReduction::kMean, 0.01f),
      MakeCase("pooling", {8, 7, 3},
               {ConvLayer("c", 4, 3), PlainLayer(kRelu), PlainLayer(LayerKind::kMaxPool, 2, 2),
                ConvLayer("d", 4, 3), PlainLayer(LayerKind::kMaxPool, 3, 1, false), flatten,
                DenseLayer("a", 4)}),
      MakeCase(
          "ReLU behind pooling, pooling first", {6, 6, 2},
          {PlainLayer(LayerKind::kMaxPool, 3, 2), PlainLayer(kRelu), flatten, DenseLayer("a", 4)}),
      chunks,
  };
}

struct Differentiated {
  float loss = 0.0f;
  std::vector<float> gradients;
};

inline Differentiated RunStep(Program& program, const Batch& batch,
                              const std::vector<float>& parameters) {
  Differentiated result;
  result.gradients.resize(parameters.size(), NAN);
  const absl::StatusOr<float> loss = program.Gradients(batch, parameters, result.gradients);
  EXPECT_TRUE(loss.ok()) << loss.status();
  result.loss = loss.value_or(NAN);
  return result;
}

// Within `tolerance` of the largest value of b.
inline void ExpectClose(const std::vector<float>& a, const std::vector<float>& b, float tolerance,
                        const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  float largest = 1e-3f;
  for (const float value : b) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], tolerance * largest) << what << ", element " << i;
  }
}

// Loss, gradients and outputs of `backend` are the CPU's: for whole batches and smaller ones, and
// the third time as the first (a captured graph runs from the second on).
inline void ExpectSameAsCpu(Backend& backend, const ModelCase& c, float tolerance) {
  SCOPED_TRACE(c.name);
  const Model& model = *c.model;
  const ProgramOptions options = {.batch_size = c.batch};
  auto reference = MakeCpuBackend()->Compile(c.model, options);
  auto program = backend.Compile(c.model, options);
  ASSERT_TRUE(reference.ok() && program.ok()) << program.status();
  const OwnedBatch data = RandomBatch(model, 3 * c.batch);
  const std::vector<float> parameters = InitialParameters(model);
  for (int round = 0; round < 3; ++round) {
    for (const int64_t size : {c.batch, (c.batch + 1) / 2}) {
      Batch batch = data.Part(model, round * c.batch, size);
      batch.dropout_seed = 0x123456789abcu + static_cast<uint64_t>(round);
      const Differentiated expected = RunStep(**reference, batch, parameters);
      const Differentiated result = RunStep(**program, batch, parameters);
      EXPECT_NEAR(result.loss, expected.loss, tolerance * std::max(1.0f, std::abs(expected.loss)));
      ExpectClose(result.gradients, expected.gradients, tolerance, "gradients");
      std::vector<float> expected_outputs(static_cast<size_t>(size * model.output_size()));
      std::vector<float> outputs(expected_outputs.size(), NAN);
      EXPECT_TRUE((*reference)->Forward(batch, parameters, expected_outputs).ok());
      EXPECT_TRUE((*program)->Forward(batch, parameters, outputs).ok());
      ExpectClose(outputs, expected_outputs, tolerance, "outputs");
    }
  }
}

// The losses of `steps` updates of plain SGD.
inline std::vector<float> LossesOf(Backend& backend, const ModelCase& c, int steps, float rate) {
  auto program = backend.Compile(c.model, {.batch_size = c.batch});
  EXPECT_TRUE(program.ok()) << program.status();
  const OwnedBatch data = RandomBatch(*c.model, 4 * c.batch);
  std::vector<float> parameters = InitialParameters(*c.model);
  std::vector<float> losses;
  for (int step = 0; step < steps; ++step) {
    const Batch batch = data.Part(*c.model, step % 4 * c.batch, c.batch);
    const Differentiated result = RunStep(**program, batch, parameters);
    losses.push_back(result.loss);
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i] -= rate * result.gradients[i];
  }
  return losses;
}

// `steps` whole steps with variables on the device end where the CPU's do: losses, variables, slots
// and averages, for every optimiser, with averages, clipping and a rate that changes.
inline void ExpectSameUpdatesAsCpu(const std::shared_ptr<const cuda::Plugin>& plugin,
                                   const ModelCase& c, int steps, float tolerance) {
  const auto cpu = MakeCpuBackend()->Compile(c.model, {.batch_size = c.batch});
  ASSERT_TRUE(cpu.ok());
  const OwnedBatch data = RandomBatch(*c.model, 3 * c.batch);
  const auto size = static_cast<size_t>(c.model->parameter_count());
  for (const auto kind : {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdam,
                          OptimizerKind::kAdagrad}) {
    SCOPED_TRACE(std::string(OptimizerName(kind)));
    const OptimizerOptions optimizer = {.kind = kind};
    const float clip_norm = kind == OptimizerKind::kMomentum ? 0.5f : 0.0f;
    ResidentState state = {.parameters = InitialParameters(*c.model), .slots = {}, .ema = {}};
    for (int slot = 0; slot < static_cast<int>(SlotNames(kind).size()); ++slot) {
      state.slots.emplace_back(size, SlotInitialValue(optimizer, slot));
    }
    state.ema = state.parameters;
    const auto program = MakeResidentProgram(plugin, c.model,
                                             {.batch_size = c.batch,
                                              .optimizer = optimizer,
                                              .ema = true,
                                              .clip_norm = clip_norm,
                                              .allow_growth = true});
    ASSERT_TRUE(program.ok()) << program.status();
    ASSERT_TRUE((*program)->Load(state).ok());
    for (int step = 1; step <= steps; ++step) {
      const float rate = 0.05f / static_cast<float>(step);
      const float decay = std::min(0.9f, (1.0f + static_cast<float>(step)) / 10.0f);
      const Batch batch = data.Part(*c.model, step % 3 * c.batch, c.batch);
      const absl::StatusOr<float> loss = (*program)->Train(batch, rate, step, decay);
      ASSERT_TRUE(loss.ok()) << loss.status();
      Differentiated expected = RunStep(**cpu, batch, state.parameters);
      EXPECT_NEAR(*loss, expected.loss, tolerance * std::max(1.0f, expected.loss)) << step;
      if (clip_norm > 0.0f) ClipByGlobalNorm(clip_norm, expected.gradients);
      UpdateArgs args;
      args.gradient = expected.gradients;
      args.old_parameters = state.parameters;
      args.new_parameters = state.parameters;
      for (auto& slot : state.slots) args.slots.emplace_back(slot);
      args.learning_rate = rate;
      args.update = step;
      args.old_ema = state.ema;
      args.new_ema = state.ema;
      args.ema_decay = decay;
      ApplyUpdate(optimizer, args);
    }
    const absl::StatusOr<ResidentState> result = (*program)->Store();
    ASSERT_TRUE(result.ok()) << result.status();
    ExpectClose(result->parameters, state.parameters, tolerance, "variables");
    ExpectClose(result->ema, state.ema, tolerance, "averages");
    for (size_t i = 0; i < state.slots.size(); ++i) {
      ExpectClose(result->slots[i], state.slots[i], tolerance, "a slot");
    }
  }
}

}  // namespace trainer
