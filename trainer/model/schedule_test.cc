#include "trainer/model/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trainer {
namespace {

TEST(ScheduleTest, DecaysSmoothlyOrInStairs) {
  LearningRateSchedule schedule = {.rate = 0.8f, .decay = 0.99f, .decay_steps = 600};
  EXPECT_FLOAT_EQ(LearningRate(schedule, 0), 0.8f);
  EXPECT_FLOAT_EQ(LearningRate(schedule, 300), 0.8f * std::sqrt(0.99f));
  EXPECT_FLOAT_EQ(LearningRate(schedule, 600), 0.8f * 0.99f);
  EXPECT_FLOAT_EQ(LearningRate(schedule, 60000), 0.8f * std::pow(0.99f, 100.0f));
  schedule.staircase = true;
  EXPECT_FLOAT_EQ(LearningRate(schedule, 599), 0.8f);
  EXPECT_FLOAT_EQ(LearningRate(schedule, 600), 0.8f * 0.99f);
  EXPECT_FLOAT_EQ(LearningRate(schedule, 1199), 0.8f * 0.99f);
}

TEST(ScheduleTest, IsConstantWithoutDecay) {
  EXPECT_EQ(LearningRate({.rate = 0.1f, .decay = 0.5f, .decay_steps = 0}, 1000), 0.1f);
  EXPECT_EQ(LearningRate({.rate = 0.1f, .decay = 1.0f, .decay_steps = 10}, 1000), 0.1f);
}

TEST(EmaDecayTest, WarmsUp) {
  EXPECT_FLOAT_EQ(EmaDecay(0.99f, 0), 0.1f);
  EXPECT_FLOAT_EQ(EmaDecay(0.99f, 90), 0.91f);
  EXPECT_FLOAT_EQ(EmaDecay(0.99f, 890), 0.99f);
  EXPECT_FLOAT_EQ(EmaDecay(0.99f, 1000000), 0.99f);
}

}  // namespace
}  // namespace trainer
