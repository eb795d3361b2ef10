// What programs promise beyond right gradients: exactness, determinism, odd batches, errors; and
// that towers equal one large batch.
#include "trainer/cpu/cpu_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "base/exit_codes.h"
#include "trainer/cpu/test_models.h"
#include "trainer/model/optimizer.h"
#include "trainer/model/presets.h"
#include "trainer/model/towers.h"

namespace trainer {
namespace {

using testing::HasSubstr;

std::shared_ptr<const Model> Preset(const char* name) {
  return std::make_shared<const Model>(*Model::Create(MakePreset(name)->model));
}

std::shared_ptr<const Model> SmallModel(LossReduction reduction = LossReduction::kMean,
                                        LossKind loss = LossKind::kSoftmaxCrossEntropy) {
  ModelSpec spec;
  spec.input_shape = {30};
  spec.layers = {DenseLayer("a", 80), PlainLayer(LayerKind::kRelu), DenseLayer("b", 5)};
  spec.loss = loss;
  spec.reduction = reduction;
  spec.l2 = 0.001f;
  return std::make_shared<const Model>(*Model::Create(spec));
}

std::unique_ptr<Program> Compile(std::shared_ptr<const Model> model, ProgramOptions options) {
  absl::StatusOr<std::unique_ptr<Program>> program =
      MakeCpuBackend()->Compile(std::move(model), options);
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

struct Result {
  float loss = 0.0f;
  std::vector<float> gradients;
};

Result Differentiate(Program& program, const Batch& batch, const std::vector<float>& parameters) {
  Result result;
  result.gradients.resize(parameters.size());
  const absl::StatusOr<float> loss = program.Gradients(batch, parameters, result.gradients);
  EXPECT_TRUE(loss.ok()) << loss.status();
  result.loss = loss.value_or(NAN);
  return result;
}

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b, float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  float largest = 0.0f;
  for (const float value : b) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance * largest) << i;
}

TEST(CpuBackendTest, ALossIsTheMeanCrossEntropyPlusTheL2Term) {
  const auto model = SmallModel();
  const OwnedBatch batch = RandomBatch(*model, 4);
  const auto program = Compile(model, {.batch_size = 4});
  const std::vector<float> parameters = InitialParameters(*model);
  std::vector<float> logits(4 * 5);
  ASSERT_TRUE(program->Forward(batch.All(*model), parameters, logits).ok());
  double expected = 0.0;
  for (int i = 0; i < 4; ++i) {
    double sum = 0.0;
    for (int c = 0; c < 5; ++c) sum += std::exp(static_cast<double>(logits[i * 5 + c]));
    expected += (std::log(sum) - logits[i * 5 + batch.labels[i]]) / 4;
  }
  for (const Variable& variable : model->variables()) {
    if (!variable.l2) continue;
    for (int64_t i = 0; i < variable.size; ++i) {
      expected += 0.5 * 0.001 * std::pow(parameters[variable.offset + i], 2);
    }
  }
  EXPECT_NEAR(Differentiate(*program, batch.All(*model), parameters).loss, expected,
              1e-5 * expected);
}

TEST(CpuBackendTest, AClippedLossHasNoGradientWhereItIsClipped) {
  ModelSpec spec;
  spec.input_shape = {1};
  spec.layers = {DenseLayer("a", 2)};
  spec.loss = LossKind::kClippedSoftmaxCrossEntropy;
  spec.reduction = LossReduction::kSum;
  const auto model = std::make_shared<const Model>(*Model::Create(spec));
  const auto program = Compile(model, {.batch_size = 1});
  OwnedBatch batch = RandomBatch(*model, 1);
  batch.inputs = {1.0f};
  batch.labels = {0};
  const std::vector<float> parameters = {-50.0f, 50.0f, 0.0f, 0.0f};  // weights, then biases
  const Result result = Differentiate(*program, batch.All(*model), parameters);
  EXPECT_FLOAT_EQ(result.loss, -std::log(1e-10f));
  EXPECT_THAT(result.gradients, testing::Each(0.0f));
}

TEST(CpuBackendTest, HalfBatchesSumToTheWhole) {
  ModelSpec spec = SmallModel(LossReduction::kSum)->spec();
  spec.l2 = 0.0f;
  const auto model = std::make_shared<const Model>(*Model::Create(spec));
  const OwnedBatch batch = RandomBatch(*model, 60);
  const std::vector<float> parameters = InitialParameters(*model);
  const auto program = Compile(model, {.batch_size = 60});
  const Result whole = Differentiate(*program, batch.All(*model), parameters);
  const Result first = Differentiate(*program, batch.Part(*model, 0, 30), parameters);
  const Result second = Differentiate(*program, batch.Part(*model, 30, 30), parameters);
  std::vector<float> sum = first.gradients;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += second.gradients[i];
  EXPECT_NEAR(first.loss + second.loss, whole.loss, 1e-4f * whole.loss);
  ExpectNear(sum, whole.gradients, 1e-5f);
}

// Products and sums of small integers are exact in f32 (and bf16 operands), in any order.
TEST(CpuBackendTest, IntegerGradientsAreExact) {
  ModelSpec spec;
  spec.input_shape = {300};
  spec.layers = {DenseLayer("a", 200)};
  spec.loss = LossKind::kMeanSquaredError;
  spec.reduction = LossReduction::kSum;
  const auto model = std::make_shared<const Model>(*Model::Create(spec));
  OwnedBatch batch = RandomBatch(*model, 36);
  for (float& x : batch.inputs) x = std::round(2 * x);
  for (float& x : batch.targets) x = std::round(2 * x);
  std::vector<float> parameters = InitialParameters(*model);
  for (float& x : parameters) x = std::round(x);
  std::vector<float> expected(parameters.size(), 0.0f);
  for (int row = 0; row < 36; ++row) {
    for (int o = 0; o < 200; ++o) {
      float y = parameters[300 * 200 + o];
      for (int i = 0; i < 300; ++i) y += batch.inputs[row * 300 + i] * parameters[i * 200 + o];
      const float g = 2 * (y - batch.targets[row * 200 + o]);
      for (int i = 0; i < 300; ++i) expected[i * 200 + o] += batch.inputs[row * 300 + i] * g;
      expected[300 * 200 + o] += g;
    }
  }
  for (const int threads : {1, 2, 3}) {
    const auto program = Compile(model, {.batch_size = 36, .threads = threads});
    EXPECT_EQ(Differentiate(*program, batch.All(*model), parameters).gradients, expected)
        << threads;
  }
}

TEST(CpuBackendTest, TheSameSeedGivesBitEqualLosses) {
  const auto model = Preset("mnist-mlp");
  const OwnedBatch batch = RandomBatch(*model, 100);
  for (const int threads : {1, 2}) {
    std::vector<float> losses[2];
    for (std::vector<float>& run : losses) {
      const auto program = Compile(model, {.batch_size = 100, .threads = threads});
      std::vector<float> parameters = InitialParameters(*model);
      for (int step = 0; step < 10; ++step) {
        Result result = Differentiate(*program, batch.All(*model), parameters);
        run.push_back(result.loss);
        UpdateArgs args;
        args.gradient = result.gradients;
        args.old_parameters = parameters;
        args.new_parameters = parameters;
        args.learning_rate = 0.1f;
        ApplyUpdate({}, args);
      }
    }
    EXPECT_EQ(losses[0], losses[1]);
    EXPECT_LT(losses[0].back(), 0.5f * losses[0].front());
  }
}

TEST(CpuBackendTest, DropoutDependsOnItsSeedAlone) {
  ModelSpec spec;
  spec.input_shape = {30};
  spec.layers = {DropoutLayer(0.5f), DenseLayer("a", 5)};
  const auto model = std::make_shared<const Model>(*Model::Create(spec));
  const OwnedBatch owned = RandomBatch(*model, 64);
  const std::vector<float> parameters = InitialParameters(*model);
  Batch batch = owned.All(*model);
  batch.dropout_seed = 1;
  const auto program = Compile(model, {.batch_size = 64});
  const Result first = Differentiate(*program, batch, parameters);
  EXPECT_EQ(first.loss, Differentiate(*program, batch, parameters).loss);
  batch.dropout_seed = 2;
  EXPECT_NE(first.loss, Differentiate(*program, batch, parameters).loss);
}

TEST(CpuBackendTest, ForwardKeepsEveryUnit) {
  ModelSpec spec;
  spec.input_shape = {6};
  spec.layers = {DropoutLayer(0.9f), DenseLayer("a", 3)};
  const auto model = std::make_shared<const Model>(*Model::Create(spec));
  spec.layers.erase(spec.layers.begin());
  const auto plain = std::make_shared<const Model>(*Model::Create(spec));
  const OwnedBatch batch = RandomBatch(*model, 8);
  const std::vector<float> parameters = InitialParameters(*model);
  std::vector<float> outputs[2] = {std::vector<float>(24), std::vector<float>(24)};
  const ProgramOptions options = {.batch_size = 8, .training = false};
  ASSERT_TRUE(Compile(model, options)->Forward(batch.All(*model), parameters, outputs[0]).ok());
  ASSERT_TRUE(Compile(plain, options)->Forward(batch.All(*plain), parameters, outputs[1]).ok());
  EXPECT_EQ(outputs[0], outputs[1]);
}

TEST(CpuBackendTest, TakesBatchesOfAnySizeUpToItsOwn) {
  for (const char* name : {"mnist-mlp", "lenet5"}) {
    const auto model = Preset(name);
    const OwnedBatch batch = RandomBatch(*model, 12);
    const std::vector<float> parameters = InitialParameters(*model);
    const auto program = Compile(model, {.batch_size = 12, .training = false, .threads = 2});
    std::vector<float> all(120);
    ASSERT_TRUE(program->Forward(batch.All(*model), parameters, all).ok());
    for (int64_t size = 1; size <= 12; ++size) {
      std::vector<float> part(size * 10);
      ASSERT_TRUE(program->Forward(batch.Part(*model, 0, size), parameters, part).ok());
      for (size_t i = 0; i < part.size(); ++i) ASSERT_NEAR(part[i], all[i], 1e-3f) << size;
    }
  }
}

TEST(CpuBackendTest, ANotFiniteLossIsANumericError) {
  const auto model = SmallModel();
  const OwnedBatch batch = RandomBatch(*model, 4);
  const auto program = Compile(model, {.batch_size = 4});
  for (const float bad : {std::numeric_limits<float>::infinity(), NAN}) {
    std::vector<float> parameters = InitialParameters(*model);
    parameters.back() = bad;
    std::vector<float> gradients(parameters.size());
    const absl::Status status =
        program->Gradients(batch.All(*model), parameters, gradients).status();
    EXPECT_EQ(base::ExitCodeFor(status), base::kExitNumeric) << status;
  }
}

TEST(CpuBackendTest, WrongCallsAreRefused) {
  const auto model = SmallModel();
  OwnedBatch batch = RandomBatch(*model, 8);
  const auto program = Compile(model, {.batch_size = 4});
  const std::vector<float> parameters = InitialParameters(*model);
  std::vector<float> gradients(parameters.size());
  EXPECT_THAT(program->Gradients(batch.All(*model), parameters, gradients).status().message(),
              HasSubstr("a batch of 8 examples for a program compiled for 1 to 4"));
  batch.labels[1] = 5;
  const absl::Status label =
      program->Gradients(batch.Part(*model, 0, 4), parameters, gradients).status();
  EXPECT_THAT(label.message(), HasSubstr("label 5 for a model of 5 classes"));
  EXPECT_EQ(base::ExitCodeFor(label), base::kExitData);
  std::vector<float> short_gradients(3);
  EXPECT_FALSE(program->Gradients(batch.Part(*model, 4, 4), parameters, short_gradients).ok());
  const auto evaluation = Compile(model, {.batch_size = 4, .training = false});
  EXPECT_FALSE(evaluation->Gradients(batch.Part(*model, 4, 4), parameters, gradients).ok());
}

TEST(CpuBackendTest, WrongOptionsAreRefused) {
  const auto backend = MakeCpuBackend();
  EXPECT_EQ(backend->name(), "cpu");
  const auto message = [&](ProgramOptions options) {
    return std::string(backend->Compile(SmallModel(), options).status().message());
  };
  EXPECT_THAT(message({.batch_size = 0}), HasSubstr("batch size must be at least 1"));
  EXPECT_THAT(message({.threads = 0}), HasSubstr("threads must be at least 1"));
  EXPECT_THAT(message({.device = "/gpu:0"}), HasSubstr("cannot run on /gpu:0"));
  EXPECT_THAT(message({.device = "gpu"}), HasSubstr("is not a device"));
  EXPECT_EQ(message({.device = "/cpu:0"}), "");
}

TEST(TowersTest, EqualOneLargeBatch) {
  for (const LossReduction reduction : {LossReduction::kMean, LossReduction::kSum}) {
    const auto model = SmallModel(reduction);
    const OwnedBatch batch = RandomBatch(*model, 24);
    const std::vector<float> parameters = InitialParameters(*model);
    const auto one = Compile(model, {.batch_size = 24});
    Result expected = Differentiate(*one, batch.All(*model), parameters);
    const auto backend = MakeCpuBackend();
    const auto towers = *CompileTowers(*backend, model, {.batch_size = 8}, 3);
    const Result result = Differentiate(*towers, batch.All(*model), parameters);
    if (reduction == LossReduction::kMean) {
      EXPECT_NEAR(result.loss, expected.loss, 1e-5f * expected.loss);
      ExpectNear(result.gradients, expected.gradients, 1e-5f);
    } else {
      // The average of three sums, each with the whole L2 term.
      std::vector<float> average(parameters.size(), 0.0f);
      for (int i = 0; i < 3; ++i) {
        const Result part = Differentiate(*one, batch.Part(*model, 8 * i, 8), parameters);
        for (size_t k = 0; k < average.size(); ++k) average[k] += part.gradients[k] / 3;
      }
      ExpectNear(result.gradients, average, 1e-5f);
    }
  }
}

TEST(TowersTest, AnUnevenBatchIsWeightedByExamples) {
  const auto model = SmallModel();
  const OwnedBatch batch = RandomBatch(*model, 24);
  const std::vector<float> parameters = InitialParameters(*model);
  const auto one = Compile(model, {.batch_size = 24});
  const auto backend = MakeCpuBackend();
  const auto towers = *CompileTowers(*backend, model, {.batch_size = 8}, 3);
  for (const int64_t size : {1, 2, 4, 7, 23}) {
    const Result expected = Differentiate(*one, batch.Part(*model, 0, size), parameters);
    const Result result = Differentiate(*towers, batch.Part(*model, 0, size), parameters);
    EXPECT_NEAR(result.loss, expected.loss, 1e-5f * expected.loss);
    ExpectNear(result.gradients, expected.gradients, 1e-5f);
    std::vector<float> outputs[2] = {std::vector<float>(size * 5), std::vector<float>(size * 5)};
    ASSERT_TRUE(one->Forward(batch.Part(*model, 0, size), parameters, outputs[0]).ok());
    ASSERT_TRUE(towers->Forward(batch.Part(*model, 0, size), parameters, outputs[1]).ok());
    ExpectNear(outputs[1], outputs[0], 1e-5f);
  }
}

TEST(TowersTest, ATowersErrorIsTheStepsError) {
  const auto model = SmallModel();
  OwnedBatch batch = RandomBatch(*model, 16);
  batch.labels[15] = 99;
  const auto backend = MakeCpuBackend();
  const auto towers = *CompileTowers(*backend, model, {.batch_size = 8}, 2);
  const std::vector<float> parameters = InitialParameters(*model);
  std::vector<float> gradients(parameters.size());
  EXPECT_THAT(towers->Gradients(batch.All(*model), parameters, gradients).status().message(),
              HasSubstr("label 99"));
  EXPECT_FALSE(CompileTowers(*backend, model, {.batch_size = 8}, 0).ok());
}

}  // namespace
}  // namespace trainer
