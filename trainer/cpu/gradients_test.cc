// Gradients of every layer and loss against finite differences of the loss.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "trainer/cpu/cpu_backend.h"
#include "trainer/cpu/test_models.h"
#include "trainer/model/presets.h"

namespace trainer {
namespace {

struct Case {
  const char* name;
  std::vector<int64_t> input_shape;
  std::vector<LayerSpec> layers;
  LossKind loss = LossKind::kSoftmaxCrossEntropy;
  LossReduction reduction = LossReduction::kMean;
  int64_t batch = 5;
  float l2 = 0.01f;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::shared_ptr<const Model> Build(const Case& c) {
  ModelSpec spec;
  spec.name = c.name;
  spec.input_shape = c.input_shape;
  spec.layers = c.layers;
  spec.loss = c.loss;
  spec.reduction = c.reduction;
  spec.l2 = c.l2;
  absl::StatusOr<Model> model = Model::Create(spec);
  EXPECT_TRUE(model.ok()) << model.status();
  return std::make_shared<const Model>(*std::move(model));
}

const auto kRelu = LayerKind::kRelu;
const auto kSigmoid = LayerKind::kSigmoid;
const auto kTanh = LayerKind::kTanh;
const auto kMaxPool = LayerKind::kMaxPool;
const auto kFlatten = LayerKind::kFlatten;

std::vector<Case> Cases() {
  const LayerSpec relu = PlainLayer(kRelu);
  const LayerSpec flatten = PlainLayer(kFlatten);
  return {
      {"tiny dense", {3}, {DenseLayer("a", 4)}},
      {"dense large enough for the library",
       {40},
       {DenseLayer("a", 70), PlainLayer(kTanh), DenseLayer("b", 5)},
       LossKind::kSoftmaxCrossEntropy,
       LossReduction::kMean,
       33},
      {"a batch beyond packing",
       {12},
       {DenseLayer("a", 66), PlainLayer(kSigmoid), DenseLayer("b", 3)},
       LossKind::kSoftmaxCrossEntropy,
       LossReduction::kMean,
       300},
      {"fused relu", {9}, {DenseLayer("a", 20), relu, DenseLayer("b", 4)}},
      {"relu on the input", {9}, {relu, DenseLayer("b", 4)}},
      {"relu after tanh", {6}, {DenseLayer("a", 7), PlainLayer(kTanh), relu, DenseLayer("b", 3)}},
      {"sigmoid", {6}, {DenseLayer("a", 7), PlainLayer(kSigmoid), DenseLayer("b", 3)}},
      {"tanh then sigmoid",
       {6},
       {DenseLayer("a", 7), PlainLayer(kTanh), PlainLayer(kSigmoid), DenseLayer("b", 3)}},
      {"activation at the end",
       {6},
       {DenseLayer("a", 4), PlainLayer(kTanh)},
       LossKind::kMeanSquaredError},
      {"dropout", {6}, {DenseLayer("a", 24), DropoutLayer(0.4f), DenseLayer("b", 3)}},
      {"relu and dropout",
       {6},
       {DenseLayer("a", 24), relu, DropoutLayer(0.4f), DenseLayer("b", 3)}},
      {"sigmoid and dropout",
       {6},
       {DenseLayer("a", 24), PlainLayer(kSigmoid), DropoutLayer(0.4f), DenseLayer("b", 3)}},
      {"summed cross-entropy",
       {5},
       {DenseLayer("a", 4)},
       LossKind::kSoftmaxCrossEntropy,
       LossReduction::kSum},
      {"clipped cross-entropy",
       {5},
       {DenseLayer("a", 4)},
       LossKind::kClippedSoftmaxCrossEntropy,
       LossReduction::kSum},
      {"mean squared error", {5}, {DenseLayer("a", 4)}, LossKind::kMeanSquaredError},
      {"summed squared error",
       {1},
       {DenseLayer("a", 1)},
       LossKind::kMeanSquaredError,
       LossReduction::kSum,
       1},
      {"convolution, same", {5, 6, 2}, {ConvLayer("a", 4, 3), flatten, DenseLayer("b", 3)}},
      {"convolution, valid",
       {6, 5, 2},
       {ConvLayer("a", 3, 3, 1, false), PlainLayer(kTanh), flatten, DenseLayer("b", 3)}},
      {"convolution with a stride",
       {7, 6, 3},
       {ConvLayer("a", 5, 3, 2), relu, flatten, DenseLayer("b", 3)}},
      {"even kernel pads after", {4, 4, 1}, {ConvLayer("a", 2, 2), flatten, DenseLayer("b", 3)}},
      {"two convolutions",
       {6, 6, 1},
       {ConvLayer("a", 4, 3), PlainLayer(kSigmoid), ConvLayer("b", 6, 3), flatten,
        DenseLayer("c", 3)}},
      {"max pooling",
       {6, 6, 1},
       {ConvLayer("a", 4, 3), PlainLayer(kMaxPool, 2, 2), flatten, DenseLayer("b", 3)}},
      {"overlapping, ragged max pooling",
       {5, 5, 1},
       {ConvLayer("a", 4, 3), relu, PlainLayer(kMaxPool, 3, 2), flatten, DenseLayer("b", 3)}},
      {"valid max pooling first",
       {7, 7, 2},
       {PlainLayer(kMaxPool, 2, 2, false), ConvLayer("a", 4, 3), flatten, DenseLayer("b", 3)}},
      {"flatten first", {2, 3, 1}, {flatten, DenseLayer("a", 3)}},
  };
}

class GradientsTest : public testing::TestWithParam<Case> {};

// Central differences in f32: about 1e-3 of the gradient's size, and an absolute error from the
// rounding of the loss.
TEST_P(GradientsTest, EqualFiniteDifferences) {
  const std::shared_ptr<const Model> model = Build(GetParam());
  ProgramOptions options;
  options.batch_size = GetParam().batch;
  const auto program = *MakeCpuBackend()->Compile(model, options);
  const OwnedBatch owned = RandomBatch(*model, options.batch_size, 3);
  Batch batch = owned.All(*model);
  batch.dropout_seed = 17;
  std::vector<float> parameters = InitialParameters(*model, 5);
  std::vector<float> gradients(parameters.size(), NAN);
  const absl::StatusOr<float> loss = program->Gradients(batch, parameters, gradients);
  ASSERT_TRUE(loss.ok()) << loss.status();

  std::vector<float> ignored(parameters.size());
  const size_t stride = parameters.size() / 150 + 1;
  for (size_t i = 0; i < parameters.size(); i += stride) {
    const float value = parameters[i];
    const float step = 2e-3f;
    parameters[i] = value + step;
    const float above = *program->Gradients(batch, parameters, ignored);
    parameters[i] = value - step;
    const float below = *program->Gradients(batch, parameters, ignored);
    parameters[i] = value;
    const float expected = (above - below) / (2 * step);
    // 4 ulp of the loss over 2·step; kinks of ReLU and pooling within a step are rare.
    const float tolerance = 5e-3f * std::abs(expected) + 1.2e-4f * std::abs(*loss) + 5e-4f;
    EXPECT_NEAR(gradients[i], expected, tolerance) << "parameter " << i;
  }
}

// The same by bf16 products: near the f32 gradients.
TEST_P(GradientsTest, OfBf16AreNearThoseOfF32) {
  if (!CpuHasBf16()) GTEST_SKIP() << "this CPU has no bf16 instructions";
  const std::shared_ptr<const Model> model = Build(GetParam());
  const OwnedBatch owned = RandomBatch(*model, GetParam().batch, 3);
  const std::vector<float> parameters = InitialParameters(*model, 5);
  std::vector<float> gradients[2];
  float losses[2];
  for (int i = 0; i < 2; ++i) {
    ProgramOptions options;
    options.batch_size = GetParam().batch;
    options.compute_dtype = i == 0 ? ComputeDtype::kF32 : ComputeDtype::kBf16;
    const auto program = *MakeCpuBackend()->Compile(model, options);
    gradients[i].resize(parameters.size());
    losses[i] = *program->Gradients(owned.All(*model), parameters, gradients[i]);
  }
  EXPECT_NEAR(losses[0], losses[1], 0.02f * std::abs(losses[0]) + 0.01f);
  double difference = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    difference += std::pow(gradients[0][i] - gradients[1][i], 2);
    norm += std::pow(gradients[0][i], 2);
  }
  // Pooling may pick other winners; everything else is far closer.
  EXPECT_LT(std::sqrt(difference), 0.05 * std::sqrt(norm));
}

// Models large enough to be shared out: the same sums in another order.
TEST(ThreadsTest, HardlyChangeGradients) {
  for (const char* name : {"mnist-mlp", "dist-mnist", "sigmoid-mnist", "lenet5"}) {
    const auto model = std::make_shared<const Model>(*Model::Create(MakePreset(name)->model));
    const OwnedBatch owned = RandomBatch(*model, 37, 3);
    Batch batch = owned.All(*model);
    batch.dropout_seed = 5;
    const std::vector<float> parameters = InitialParameters(*model, 5);
    std::vector<float> expected(parameters.size());
    float expected_loss = 0.0f;
    for (int threads = 1; threads <= 3; ++threads) {
      ProgramOptions options;
      options.batch_size = 37;
      options.threads = threads;
      const auto program = *MakeCpuBackend()->Compile(model, options);
      std::vector<float> gradients(parameters.size());
      const float loss = *program->Gradients(batch, parameters, gradients);
      if (threads == 1) {
        expected = gradients;
        expected_loss = loss;
      }
      EXPECT_NEAR(loss, expected_loss, 1e-5f * expected_loss);
      for (size_t i = 0; i < gradients.size(); ++i) {
        ASSERT_NEAR(gradients[i], expected[i], 1e-4f + 1e-3f * std::abs(expected[i]))
            << name << " " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GradientsTest, testing::ValuesIn(Cases()),
                         [](const testing::TestParamInfo<Case>& info) {
                           std::string name;
                           for (const char c : std::string(info.param.name)) {
                             name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace trainer
