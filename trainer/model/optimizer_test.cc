// Optimisers against the formulas of TensorFlow's kernels, in double precision.
#include "trainer/model/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/exit_codes.h"

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t kSize = 1003;  // not a multiple of any vector's width

// Some updates of one optimiser on kSize elements, with averages, in f32 by ApplyUpdate.
struct History {
  explicit History(OptimizerOptions run_options) : options(run_options) {
    for (size_t i = 0; i < kSize; ++i) parameters.push_back(std::sin(0.1f * i));
    averages = parameters;
    for (size_t s = 0; s < SlotNames(options.kind).size(); ++s) {
      slots.emplace_back(kSize, SlotInitialValue(options, static_cast<int>(s)));
    }
  }
  static float Gradient(size_t i, int64_t update) {
    return std::cos(0.37f * i + update) * (i % 5 == 0 ? 10.0f : 0.1f);
  }
  void Step(int64_t update, bool in_place) {
    std::vector<float> gradient(kSize);
    for (size_t i = 0; i < kSize; ++i) gradient[i] = 2 * Gradient(i, update);
    std::vector<float> new_parameters(kSize);
    std::vector<float> new_averages(kSize);
    UpdateArgs args;
    args.gradient = gradient;
    args.gradient_scale = 0.5f;
    args.old_parameters = parameters;
    args.new_parameters = in_place ? parameters : new_parameters;
    for (auto& slot : slots) args.slots.emplace_back(slot);
    args.learning_rate = 0.05f;
    args.update = update;
    args.old_ema = averages;
    args.new_ema = in_place ? averages : new_averages;
    args.ema_decay = 0.9f;
    ApplyUpdate(options, args);
    if (in_place) return;
    parameters = new_parameters;
    averages = new_averages;
  }
  OptimizerOptions options;
  std::vector<float> parameters, averages;
  std::vector<std::vector<float>> slots;
};

// One element's history by the textbook, in double.
struct Reference {
  double parameter, average, slot0, slot1 = 0.0;
  void Step(const OptimizerOptions& o, double g, int64_t t) {
    constexpr double kRate = 0.05f;
    switch (o.kind) {
      case OptimizerKind::kSgd:
        parameter -= kRate * g;
        break;
      case OptimizerKind::kMomentum:
        slot0 = o.momentum * slot0 + g;
        parameter -= kRate * slot0;
        break;
      case OptimizerKind::kAdam:
        slot0 = o.beta1 * slot0 + (1.0 - o.beta1) * g;
        slot1 = o.beta2 * slot1 + (1.0 - o.beta2) * g * g;
        parameter -= kRate * std::sqrt(1.0 - std::pow(o.beta2, t)) / (1.0 - std::pow(o.beta1, t)) *
                     slot0 / (std::sqrt(slot1) + o.epsilon);
        break;
      case OptimizerKind::kAdagrad:
        slot0 += g * g;
        parameter -= kRate * g / std::sqrt(slot0);
        break;
    }
    average = 0.9f * average + (1.0 - 0.9f) * parameter;
  }
};

class OptimizerTest : public testing::TestWithParam<OptimizerKind> {};

TEST_P(OptimizerTest, FollowsTensorFlowsFormulas) {
  OptimizerOptions options;
  options.kind = GetParam();
  for (const bool in_place : {false, true}) {
    History run(options);
    const std::vector<float> initial = run.parameters;
    for (int64_t t = 1; t <= 20; ++t) run.Step(t, in_place);
    for (size_t i = 0; i < kSize; ++i) {
      Reference reference{
          .parameter = initial[i], .average = initial[i], .slot0 = SlotInitialValue(options, 0)};
      for (int64_t t = 1; t <= 20; ++t) reference.Step(options, History::Gradient(i, t), t);
      ASSERT_NEAR(run.parameters[i], reference.parameter, 2e-5) << i;
      ASSERT_NEAR(run.averages[i], reference.average, 2e-5) << i;
      if (!run.slots.empty()) {
        ASSERT_NEAR(run.slots[0][i], reference.slot0, 1e-4 + 1e-5 * std::abs(reference.slot0)) << i;
      }
    }
  }
}

TEST_P(OptimizerTest, WorksWithoutAverages) {
  OptimizerOptions options;
  options.kind = GetParam();
  History with(options);
  History without(options);
  with.Step(1, true);
  std::vector<float> gradient(kSize);
  for (size_t i = 0; i < kSize; ++i) gradient[i] = History::Gradient(i, 1);
  UpdateArgs args;
  args.gradient = gradient;
  args.old_parameters = without.parameters;
  args.new_parameters = without.parameters;
  for (auto& slot : without.slots) args.slots.emplace_back(slot);
  args.learning_rate = 0.05f;
  ApplyUpdate(options, args);
  EXPECT_EQ(with.parameters, without.parameters);
}

INSTANTIATE_TEST_SUITE_P(Kinds, OptimizerTest,
                         testing::Values(OptimizerKind::kSgd, OptimizerKind::kMomentum,
                                         OptimizerKind::kAdam, OptimizerKind::kAdagrad),
                         [](const auto& info) { return std::string(OptimizerName(info.param)); });

// tf.train.AdamOptimizer(0.01) on one variable 1.0 with gradient 0.5: the first step is
// 0.01·sqrt(1-0.999)/(1-0.9) · 0.05 / (sqrt(0.00025) + 1e-8).
TEST(OptimizerFormulaTest, AdamsEpsilonStandsOutsideTheBiasCorrection) {
  OptimizerOptions options;
  options.kind = OptimizerKind::kAdam;
  options.epsilon = 0.01f;  // large, so that its place shows
  std::vector<float> parameter = {1.0f};
  std::vector<float> first = {0.0f};
  std::vector<float> second = {0.0f};
  const std::vector<float> gradient = {0.5f};
  UpdateArgs args;
  args.gradient = gradient;
  args.old_parameters = parameter;
  args.new_parameters = parameter;
  args.slots = {first, second};
  args.learning_rate = 0.01f;
  ApplyUpdate(options, args);
  const double expected =
      1.0 - 0.01 * std::sqrt(1 - 0.999) / (1 - 0.9) * 0.05 / (std::sqrt(0.00025) + 0.01);
  EXPECT_NEAR(parameter[0], expected, 1e-7);
  EXPECT_NEAR(first[0], 0.05, 1e-7);
  EXPECT_NEAR(second[0], 0.00025, 1e-8);
}

TEST(OptimizerFormulaTest, IntegerUpdatesAreExact) {
  std::vector<float> parameters(100, 1000.0f);
  std::vector<float> gradient(100);
  for (size_t i = 0; i < 100; ++i) gradient[i] = static_cast<float>(i);
  UpdateArgs args;
  args.gradient = gradient;
  args.gradient_scale = 0.5f;
  args.old_parameters = parameters;
  args.new_parameters = parameters;
  args.learning_rate = 2.0f;
  ApplyUpdate({}, args);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(parameters[i], 1000.0f - i);
}

TEST(OptimizerNamesTest, SlotsAreNamedAsInTensorFlowsCheckpoints) {
  EXPECT_THAT(SlotNames(OptimizerKind::kSgd), IsEmpty());
  EXPECT_THAT(SlotNames(OptimizerKind::kMomentum), ElementsAre("Momentum"));
  EXPECT_THAT(SlotNames(OptimizerKind::kAdam), ElementsAre("Adam", "Adam_1"));
  EXPECT_THAT(SlotNames(OptimizerKind::kAdagrad), ElementsAre("Adagrad"));
  OptimizerOptions options;
  options.kind = OptimizerKind::kAdagrad;
  EXPECT_EQ(SlotInitialValue(options, 0), 0.1f);
  options.kind = OptimizerKind::kAdam;
  EXPECT_EQ(SlotInitialValue(options, 1), 0.0f);
}

TEST(OptimizerNamesTest, AnUnknownNameListsTheChoices) {
  EXPECT_EQ(*ParseOptimizerKind("adagrad"), OptimizerKind::kAdagrad);
  const absl::Status status = ParseOptimizerKind("adamw").status();
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitUsage);
  EXPECT_THAT(status.message(), testing::HasSubstr("choose sgd, momentum, adam or adagrad"));
}

TEST(ClipByGlobalNormTest, ScalesDownButNeverUp) {
  std::vector<float> gradient(400, 3.0f);
  EXPECT_FLOAT_EQ(ClipByGlobalNorm(6.0f, gradient), 60.0f);
  EXPECT_THAT(gradient, testing::Each(testing::FloatEq(0.3f)));
  EXPECT_FLOAT_EQ(ClipByGlobalNorm(100.0f, gradient), 6.0f);
  EXPECT_THAT(gradient, testing::Each(testing::FloatEq(0.3f)));
  EXPECT_EQ(ClipByGlobalNorm(1.0f, {}), 0.0f);
}

}  // namespace
}  // namespace trainer
