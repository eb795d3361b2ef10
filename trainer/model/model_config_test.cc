// YAML models: what they set, and a table of mistakes with their messages.
#include "trainer/model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/exit_codes.h"

namespace trainer {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TrainingSpec Parse(std::string_view yaml) {
  absl::StatusOr<TrainingSpec> spec = ParseTrainingSpec(yaml, "model.yaml");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *std::move(spec) : TrainingSpec{};
}

std::string Problems(std::string_view yaml) {
  const absl::Status status = ParseTrainingSpec(yaml, "model.yaml").status();
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitUsage) << status;
  return std::string(status.message());
}

TEST(ModelConfigTest, APresetIsOverriddenKeyByKey) {
  const TrainingSpec spec = Parse(
      "preset: mnist-mlp\n"
      "learning_rate: 0.8\n"
      "batch_size: 50\n"
      "ema_decay: 0.999\n"
      "optimizer: {name: momentum, momentum: 0.5}\n"
      "epochs: 3\n");
  EXPECT_EQ(spec.model.layers.size(), 3);
  EXPECT_FLOAT_EQ(spec.schedule.rate, 0.8f);
  EXPECT_FLOAT_EQ(spec.schedule.decay, 0.99f);
  EXPECT_EQ(ResolvedSchedule(spec).decay_steps, 1200);
  EXPECT_EQ(spec.optimizer.kind, OptimizerKind::kMomentum);
  EXPECT_FLOAT_EQ(spec.optimizer.momentum, 0.5f);
  EXPECT_FLOAT_EQ(spec.ema_decay, 0.999f);
  EXPECT_EQ(TrainSteps(spec, 1000), 60);
}

TEST(ModelConfigTest, AFreeModelIsBuiltLayerByLayer) {
  const TrainingSpec spec = Parse(
      "name: small\n"
      "input_shape: [28, 28, 1]\n"
      "layers:\n"
      "  - {type: conv2d, filters: 8, kernel: 3, stride: 2, padding: valid}\n"
      "  - relu\n"
      "  - {type: maxpool, kernel: 3}\n"
      "  - flatten\n"
      "  - {type: dense, units: 20, name: hidden, l2: false, device: /cpu:0,\n"
      "     weights: {normal: 0.5}, bias: 0.25}\n"
      "  - {type: dropout, rate: 0.3}\n"
      "  - {type: dense, units: 10, weights_name: w, bias_name: b}\n"
      "loss: mse\n"
      "reduction: sum\n"
      "l2: 0.001\n"
      "optimizer: adam\n"
      "learning_rate: 0.01\n"
      "learning_rate_decay: 0.5\n"
      "decay_steps: 100\n"
      "staircase: true\n"
      "clip_norm: 5\n"
      "train_steps: 77\n");
  const auto& layers = spec.model.layers;
  ASSERT_EQ(layers.size(), 7);
  EXPECT_EQ(layers[0].name, "layer1");
  EXPECT_EQ(layers[0].units, 8);
  EXPECT_EQ(layers[0].stride, 2);
  EXPECT_FALSE(layers[0].same_padding);
  EXPECT_FLOAT_EQ(layers[0].weights_init.stddev, 0.1f);
  EXPECT_EQ(layers[2].stride, 3);
  EXPECT_EQ(layers[4].name, "hidden");
  EXPECT_EQ(layers[4].weights_init.kind, Initializer::Kind::kNormal);
  EXPECT_FLOAT_EQ(layers[4].bias_init.value, 0.25f);
  EXPECT_FALSE(layers[4].l2);
  EXPECT_EQ(layers[4].device, "/cpu:0");
  EXPECT_FLOAT_EQ(layers[5].rate, 0.3f);
  EXPECT_EQ(layers[6].name, "layer3");
  EXPECT_EQ(layers[6].weights_name, "w");
  EXPECT_EQ(spec.model.loss, LossKind::kMeanSquaredError);
  EXPECT_EQ(spec.model.reduction, LossReduction::kSum);
  EXPECT_EQ(spec.optimizer.kind, OptimizerKind::kAdam);
  EXPECT_EQ(ResolvedSchedule(spec).decay_steps, 100);
  EXPECT_TRUE(spec.schedule.staircase);
  EXPECT_FLOAT_EQ(spec.clip_norm, 5.0f);
  EXPECT_EQ(TrainSteps(spec, 55000), 77);
}

TEST(ModelConfigTest, LayersReplaceThoseOfThePreset) {
  const TrainingSpec spec =
      Parse("preset: mnist-mlp\nlayers:\n  - {type: dense, units: 10, name: only}\n");
  EXPECT_EQ(spec.model.layers.size(), 1);
  EXPECT_THAT(spec.model.input_shape, ElementsAre(784));
}

TEST(ModelConfigTest, AllProblemsComeAtOnceInOrderOfLines) {
  EXPECT_EQ(Problems("preset: mnist-mpl\n"
                     "learning_rat: 0.8\n"
                     "layers:\n"
                     "  - {type: dense, units: none}\n"
                     "  - {type: dens, units: 3}\n"
                     "  - {type: relu, units: 3}\n"
                     "optimizer: adam\n"
                     "batch_size: 0\n"),
            "model.yaml:1: unknown preset 'mnist-mpl' (did you mean 'mnist-mlp'?); choose "
            "mnist-mlp, dist-mnist, sigmoid-mnist, linear-regression, lenet5\n"
            "model.yaml:2: unknown key 'learning_rat'; did you mean 'learning_rate'?\n"
            "model.yaml:4: layer 1: units must be a whole number of at least 1, not 'none'\n"
            "model.yaml:5: layer 2: unknown type 'dens' (did you mean 'dense'?); choose dense, "
            "conv2d, maxpool, relu, sigmoid, tanh, dropout, flatten\n"
            "model.yaml:6: layer 3: unknown key 'units'; known are type, name, device\n"
            "model.yaml:8: batch_size must be a whole number of at least 1, not '0'");
}

TEST(ModelConfigTest, MistakesGetTheirMessages) {
  struct Row {
    const char* yaml;
    const char* message;
  };
  for (const Row& row : {
           Row{"", "model.yaml: must be a mapping of settings"},
           Row{"- a\n", "must be a mapping of settings"},
           Row{"preset: [mnist-mlp]\n", "model.yaml:1: unknown preset a list"},
           Row{"preset: mnist-mlp\npreset: lenet5\n", "model.yaml:2: 'preset' is given twice"},
           Row{"preset: mnist-mlp\nstaircase: 3\n", "staircase must be true or false, not '3'"},
           Row{"preset: mnist-mlp\nl2: .nan\n", "l2 must be a number of at least 0, not '.nan'"},
           Row{"preset: mnist-mlp\nl2: 1e99\n", "l2 must be a number of at least 0, not '1e99'"},
           Row{"preset: mnist-mlp\nema_decay: 2\n", "ema_decay must be a number from 0 to 1"},
           Row{"preset: mnist-mlp\nlayers: 3\n", "layers must be a list"},
           Row{"preset: mnist-mlp\nlayers: []\n", "the model has no layers"},
           Row{"preset: mnist-mlp\nlayers: [{units: 3}]\n", "layer 1: must be a type such as relu"},
           Row{"preset: mnist-mlp\nlayers: [[]]\n", "layer 1: must be a type such as relu"},
           Row{"preset: mnist-mlp\nlayers: [{type: dense, units: 3, weights: big}]\n",
               "layer 1: weights must be a number, {constant: x}"},
           Row{"preset: mnist-mlp\nlayers: [{type: dense, units: 3, weights: {uniform: 1}}]\n",
               "weights: unknown key 'uniform'"},
           Row{"preset: mnist-mlp\nlayers: [{type: dense, units: 3, device: gpu}]\n",
               "'gpu' is not a device"},
           Row{"preset: mnist-mlp\nlayers: [{type: dropout, rate: 1}]\n", "rate must be a number"},
           Row{"layers: [{type: dense, units: 3}]\n", "input_shape [] must hold positive sizes"},
           Row{"preset: mnist-mlp\ninput_shape: [a]\n", "input_shape must hold whole numbers"},
           Row{"preset: mnist-mlp\ninput_shape: [28, 28]\n", "put a flatten layer before it"},
           Row{"preset: mnist-mlp\noptimizer: {nam: adam}\n", "optimizer: unknown key 'nam'"},
           Row{"preset: mnist-mlp\n? [a]\n: b\n", "keys must be plain words"},
           Row{"a: [b\n", "model.yaml:2: "},
           Row{"a: *b\n", "model.yaml:1: "},
       }) {
    EXPECT_THAT(Problems(row.yaml), HasSubstr(row.message)) << row.yaml;
  }
}

TEST(ModelConfigTest, FilesAreReadAndNamedInMessages) {
  const std::string path = testing::TempDir() + "/model_config_test.yaml";
  std::ofstream(path) << "preset: lenet5\nbatch_size: 32\n";
  const auto spec = LoadTrainingSpec(path);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->batch_size, 32);
  std::ofstream(path) << "presett: lenet5\n";
  EXPECT_THAT(LoadTrainingSpec(path).status().message(), HasSubstr(path + ":1: unknown key"));
  std::ofstream(path) << std::string(2 << 20, '#');
  EXPECT_THAT(LoadTrainingSpec(path).status().message(), HasSubstr("larger than 1 MiB"));
  EXPECT_THAT(LoadTrainingSpec(path + ".no").status().message(),
              AllOf(HasSubstr("--config: cannot read"), HasSubstr("no such file")));
  EXPECT_FALSE(LoadTrainingSpec(testing::TempDir()).ok());
}

}  // namespace
}  // namespace trainer
