// The presets' networks, variables and defaults, as the scripts that they come from have them.
#include "trainer/model/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/exit_codes.h"

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> VariableNames(const Model& model) {
  std::vector<std::string> names;
  for (const Variable& variable : model.variables()) names.push_back(variable.name);
  return names;
}

Model Build(const TrainingSpec& spec) {
  absl::StatusOr<Model> model = Model::Create(spec.model);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

TEST(PresetsTest, MnistMlp) {
  TrainingSpec spec = *MakePreset("mnist-mlp");
  const Model model = Build(spec);
  EXPECT_EQ(model.parameter_count(), 784 * 500 + 500 + 500 * 10 + 10);
  EXPECT_THAT(VariableNames(model),
              ElementsAre("layer1/weights", "layer1/biases", "layer2/weights", "layer2/biases"));
  EXPECT_EQ(model.variables()[0].init.kind, Initializer::Kind::kTruncatedNormal);
  EXPECT_FLOAT_EQ(model.variables()[0].init.stddev, 0.1f);
  EXPECT_TRUE(model.variables()[0].l2 && model.variables()[2].l2);
  EXPECT_FALSE(model.variables()[1].l2 || model.variables()[3].l2);
  EXPECT_EQ(spec.model.loss, LossKind::kSoftmaxCrossEntropy);
  EXPECT_EQ(spec.model.reduction, LossReduction::kMean);
  EXPECT_FLOAT_EQ(spec.model.l2, 0.0001f);
  EXPECT_EQ(spec.optimizer.kind, OptimizerKind::kSgd);
  EXPECT_FLOAT_EQ(spec.schedule.rate, 0.001f);
  EXPECT_FLOAT_EQ(spec.schedule.decay, 0.99f);
  EXPECT_FALSE(spec.schedule.staircase);
  EXPECT_FLOAT_EQ(spec.ema_decay, 0.99f);
  EXPECT_EQ(spec.batch_size, 100);
  EXPECT_EQ(ResolvedSchedule(spec).decay_steps, 600);
  spec.batch_size = 50;
  EXPECT_EQ(ResolvedSchedule(spec).decay_steps, 1200);
  spec.batch_size = 100000;
  EXPECT_EQ(ResolvedSchedule(spec).decay_steps, 1);
}

TEST(PresetsTest, DistMnist) {
  const TrainingSpec spec = *MakePreset("dist-mnist");
  const Model model = Build(spec);
  EXPECT_EQ(model.parameter_count(), 784 * 100 + 100 + 100 * 10 + 10);
  EXPECT_THAT(VariableNames(model), ElementsAre("hid_w", "hid_b", "sm_w", "sm_b"));
  EXPECT_FLOAT_EQ(model.variables()[0].init.stddev, 1.0f / 28);
  EXPECT_FLOAT_EQ(model.variables()[2].init.stddev, 0.1f);
  EXPECT_EQ(spec.model.loss, LossKind::kClippedSoftmaxCrossEntropy);
  EXPECT_EQ(spec.model.reduction, LossReduction::kSum);
  EXPECT_EQ(spec.optimizer.kind, OptimizerKind::kAdam);
  EXPECT_FLOAT_EQ(spec.schedule.rate, 0.01f);
  EXPECT_EQ(spec.batch_size, 100);
  EXPECT_EQ(TrainSteps(spec, 55000), 200);
  EXPECT_EQ(spec.ema_decay, 0.0f);
  EXPECT_EQ(spec.lines, LineStyle::kDistMnist);
}

TEST(PresetsTest, SigmoidMnist) {
  const TrainingSpec spec = *MakePreset("sigmoid-mnist");
  const Model model = Build(spec);
  EXPECT_THAT(VariableNames(model), ElementsAre("weights/Variable", "biases/Variable",
                                                "weights/Variable_1", "biases/Variable_1"));
  EXPECT_EQ(model.variables()[0].init.kind, Initializer::Kind::kNormal);
  EXPECT_FLOAT_EQ(model.variables()[0].init.stddev, 1.0f);
  EXPECT_EQ(spec.optimizer.kind, OptimizerKind::kSgd);
  EXPECT_FLOAT_EQ(spec.schedule.rate, 0.001f);
  EXPECT_EQ(TrainSteps(spec, 55000), 20 * 550);
}

TEST(PresetsTest, LinearRegression) {
  const TrainingSpec spec = *MakePreset("linear-regression");
  const Model model = Build(spec);
  EXPECT_THAT(VariableNames(model), ElementsAre("weight", "biase"));
  EXPECT_THAT(model.variables()[0].shape, ElementsAre(1));
  EXPECT_EQ(spec.model.loss, LossKind::kMeanSquaredError);
  EXPECT_FLOAT_EQ(spec.schedule.rate, 1e-5f);
  EXPECT_EQ(spec.batch_size, 1);
  EXPECT_EQ(spec.data, TrainingData::kLinear);
}

TEST(PresetsTest, Lenet5) {
  const TrainingSpec spec = *MakePreset("lenet5");
  const Model model = Build(spec);
  EXPECT_EQ(model.parameter_count(), (5 * 5 * 32 + 32) + (5 * 5 * 32 * 64 + 64) +
                                         (7 * 7 * 64 * 512 + 512) + (512 * 10 + 10));
  EXPECT_FLOAT_EQ(spec.schedule.rate, 0.01f);
  EXPECT_FLOAT_EQ(spec.ema_decay, 0.99f);
  EXPECT_EQ(spec.model.layers.size(), 11);
  EXPECT_FLOAT_EQ(spec.model.layers[9].rate, 0.5f);
}

TEST(PresetsTest, AllNamesMakeModels) {
  for (const std::string& name : PresetNames()) {
    ASSERT_TRUE(MakePreset(name).ok());
    EXPECT_EQ(MakePreset(name)->model.name, name);
  }
}

TEST(PresetsTest, AMistypedNameSuggestsTheNearest) {
  const absl::Status status = MakePreset("mnist-mpl").status();
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitUsage);
  EXPECT_THAT(status.message(), HasSubstr("did you mean 'mnist-mlp'?"));
  EXPECT_THAT(status.message(), HasSubstr("linear-regression"));
}

}  // namespace
}  // namespace trainer
