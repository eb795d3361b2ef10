// Shapes, variables, initial values, and the messages for wrong models.
#include "trainer/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/exit_codes.h"
#include "trainer/model/random.h"

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LayerSpec Layer(LayerKind kind, std::string name = "", int64_t units = 0, int64_t kernel = 0) {
  LayerSpec layer;
  layer.kind = kind;
  layer.name = std::move(name);
  layer.units = units;
  layer.kernel = kernel;
  return layer;
}

ModelSpec Spec(std::vector<int64_t> input_shape, std::vector<LayerSpec> layers) {
  ModelSpec spec;
  spec.name = "test";
  spec.input_shape = std::move(input_shape);
  spec.layers = std::move(layers);
  return spec;
}

std::string Problems(const ModelSpec& spec) {
  const absl::Status status = Model::Create(spec).status();
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitUsage);
  return std::string(status.message());
}

TEST(ModelTest, VariablesLieInLayerOrderWeightsFirst) {
  LayerSpec last = Layer(LayerKind::kDense, "", 2);
  last.weights_name = "w";
  last.bias_name = "b";
  const auto model = Model::Create(
      Spec({4}, {Layer(LayerKind::kDense, "first", 3), Layer(LayerKind::kTanh), last}));
  ASSERT_TRUE(model.ok()) << model.status();
  const auto& variables = model->variables();
  ASSERT_EQ(variables.size(), 4);
  EXPECT_EQ(variables[0].name, "first/weights");
  EXPECT_THAT(variables[0].shape, ElementsAre(4, 3));
  EXPECT_EQ(variables[1].name, "first/biases");
  EXPECT_THAT(variables[1].shape, ElementsAre(3));
  EXPECT_EQ(variables[2].name, "w");
  EXPECT_EQ(variables[3].name, "b");
  EXPECT_EQ(variables[2].offset, 15);
  EXPECT_EQ(model->parameter_count(), 15 + 8);
  EXPECT_EQ(model->input_size(), 4);
  EXPECT_EQ(model->output_size(), 2);
  EXPECT_EQ(model->layers()[1].weights, -1);
  EXPECT_EQ(model->layers()[2].bias, 3);
}

TEST(ModelTest, WindowsFollowTensorFlowsRule) {
  struct Row {
    int64_t input, kernel, stride;
    bool same;
    int64_t output, before, after;
  };
  for (const Row& row :
       {Row{28, 5, 1, true, 28, 2, 2}, Row{28, 2, 2, true, 14, 0, 0}, Row{7, 2, 2, true, 4, 0, 1},
        Row{5, 4, 1, true, 5, 1, 2}, Row{28, 5, 1, false, 24, 0, 0}, Row{7, 2, 2, false, 3, 0, 0},
        Row{5, 3, 7, true, 1, 0, 0}, Row{3, 9, 1, true, 3, 4, 4}}) {
    LayerSpec layer = Layer(LayerKind::kConv2d, "c", 1, row.kernel);
    layer.stride = row.stride;
    layer.same_padding = row.same;
    const WindowExtent extent = ConvWindow(row.input, layer);
    EXPECT_EQ(extent.output, row.output) << row.input << " " << row.kernel;
    EXPECT_EQ(extent.pad_before, row.before);
    EXPECT_EQ(extent.pad_after, row.after);
  }
  LayerSpec too_wide = Layer(LayerKind::kConv2d, "c", 1, 9);
  too_wide.same_padding = false;
  EXPECT_LE(ConvWindow(3, too_wide).output, 0);
}

TEST(ModelTest, ImagesShrinkThroughALenet) {
  LayerSpec pool = Layer(LayerKind::kMaxPool, "", 0, 2);
  pool.stride = 2;
  const auto model = Model::Create(
      Spec({28, 28, 1}, {Layer(LayerKind::kConv2d, "c", 32, 5), pool, Layer(LayerKind::kFlatten),
                         Layer(LayerKind::kDense, "d", 10)}));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->layers()[0].output_shape, ElementsAre(28, 28, 32));
  EXPECT_THAT(model->layers()[1].output_shape, ElementsAre(14, 14, 32));
  EXPECT_THAT(model->layers()[2].output_shape, ElementsAre(14 * 14 * 32));
  EXPECT_THAT(model->variables()[0].shape, ElementsAre(5, 5, 1, 32));
}

TEST(ModelTest, EveryProblemIsListedWithItsLayer) {
  LayerSpec dropout = Layer(LayerKind::kDropout);
  dropout.rate = 1.0f;
  ModelSpec spec =
      Spec({784}, {Layer(LayerKind::kDense, "a", 0), dropout, Layer(LayerKind::kDense, "a", 10),
                   Layer(LayerKind::kMaxPool, "p", 0, -1)});
  spec.l2 = -1.0f;
  const std::string problems = Problems(spec);
  EXPECT_THAT(problems, HasSubstr("l2 must be a number >= 0, not -1"));
  EXPECT_THAT(problems, HasSubstr("layer 1 (dense 'a'): units must be at least 1, not 0"));
  EXPECT_THAT(problems, HasSubstr("layer 2 (dropout): rate must be in [0, 1), not 1"));
  EXPECT_THAT(problems, HasSubstr("layer 3 (dense 'a'): the name is taken"));
  EXPECT_THAT(problems, HasSubstr("layer 4 (maxpool 'p'): kernel must be 1 to 4096, not -1"));
}

TEST(ModelTest, WrongModelsAreExplained) {
  const LayerSpec dense = Layer(LayerKind::kDense, "d", 10);
  EXPECT_THAT(Problems(Spec({784}, {})), HasSubstr("no layers"));
  EXPECT_THAT(Problems(Spec({}, {dense})), HasSubstr("input_shape [] must hold positive sizes"));
  EXPECT_THAT(Problems(Spec({0}, {dense})), HasSubstr("input_shape [0]"));
  EXPECT_THAT(Problems(Spec({28, 28, 1}, {dense})), HasSubstr("put a flatten layer before it"));
  EXPECT_THAT(Problems(Spec({784}, {Layer(LayerKind::kConv2d, "c", 4, 3)})),
              HasSubstr("needs an image [height, width, channels] but gets [784]"));
  EXPECT_THAT(Problems(Spec({4}, {Layer(LayerKind::kRelu)})), HasSubstr("nothing to train"));
  EXPECT_THAT(Problems(Spec({9, 9, 1}, {Layer(LayerKind::kConv2d, "c", 4, 3)})),
              HasSubstr("must give a flat output, not [9, 9, 4]"));
  EXPECT_THAT(Problems(Spec({4}, {Layer(LayerKind::kDense, "d", 1)})),
              HasSubstr("cross-entropy needs at least 2 outputs"));
  EXPECT_THAT(Problems(Spec({1 << 20}, {Layer(LayerKind::kDense, "d", 1 << 20)})),
              HasSubstr("too large"));
  EXPECT_THAT(
      Problems(Spec({4}, {Layer(LayerKind::kDense, "", 4), Layer(LayerKind::kDense, "", 4)})),
      HasSubstr("a variable named 'weights' exists already"));
  LayerSpec valid = Layer(LayerKind::kMaxPool, "p", 0, 5);
  valid.same_padding = false;
  EXPECT_THAT(Problems(Spec({3, 3, 1}, {valid})), HasSubstr("kernel 5 is larger than the image"));
}

TEST(ModelTest, InitialValuesDependOnSeedAndNameAlone) {
  LayerSpec a = Layer(LayerKind::kDense, "a", 5);
  a.weights_init = {Initializer::Kind::kNormal, 0.0f, 1.0f};
  a.bias_init = {Initializer::Kind::kConstant, 0.25f, 0.0f};
  LayerSpec b = a;
  b.name = "b";
  const auto both = *Model::Create(Spec({5}, {a, b}));
  const auto one = *Model::Create(Spec({5}, {b}));
  std::vector<float> all(both.parameter_count());
  std::vector<float> again(both.parameter_count());
  std::vector<float> part(one.parameter_count());
  both.Initialize(7, all);
  both.Initialize(7, again);
  one.Initialize(7, part);
  EXPECT_EQ(all, again);
  EXPECT_EQ(part, std::vector<float>(all.begin() + 30, all.end()));
  EXPECT_NE(std::vector<float>(all.begin(), all.begin() + 25),
            std::vector<float>(all.begin() + 30, all.begin() + 55));
  EXPECT_EQ(all[25], 0.25f);
  both.Initialize(8, again);
  EXPECT_NE(all, again);
}

TEST(ModelTest, NormalValuesHaveTheirMomentsAndBounds) {
  for (const bool truncated : {false, true}) {
    LayerSpec layer = Layer(LayerKind::kDense, "a", 100);
    layer.weights_init = {
        truncated ? Initializer::Kind::kTruncatedNormal : Initializer::Kind::kNormal, 0.0f, 0.1f};
    const auto model = *Model::Create(Spec({1000}, {layer}));
    std::vector<float> values(model.parameter_count());
    model.Initialize(3, values);
    values.resize(100000);
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / values.size();
    double variance = 0.0;
    float largest = 0.0f;
    for (const float value : values) {
      variance += (value - mean) * (value - mean) / values.size();
      largest = std::max(largest, std::abs(value));
    }
    EXPECT_NEAR(mean, 0.0, 0.002);
    // A normal distribution cut at 2σ has standard deviation 0.8796 σ.
    EXPECT_NEAR(std::sqrt(variance), truncated ? 0.08796 : 0.1, 0.001);
    if (truncated) {
      EXPECT_LE(largest, 0.2f);
    } else {
      EXPECT_GT(largest, 0.3f);
    }
  }
}

// The numbers themselves: a change of them would change every seeded run.
TEST(RandomStreamTest, KeepsItsNumbers) {
  RandomStream stream(1, "a");
  RandomStream same(1, "a");
  EXPECT_EQ(stream.Next(), same.Next());
  EXPECT_NE(RandomStream(1, "a").Next(), RandomStream(1, "b").Next());
  EXPECT_NE(RandomStream(1, "a").Next(), RandomStream(2, "a").Next());
  EXPECT_EQ(RandomStream(1, "layer1/weights").Next(), 11748180634188848756ULL);
}

}  // namespace
}  // namespace trainer
