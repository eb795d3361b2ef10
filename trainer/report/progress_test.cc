#include "trainer/report/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

StepReport Step(int64_t local, int64_t global, double loss) {
  StepReport step;
  step.local_step = local;
  step.global_step = global;
  step.loss = loss;
  step.examples = 100;
  return step;
}

TEST(StepLineTest, OfAClusterIsTheClassicOne) {
  EXPECT_EQ(FormatStepLine(ProgressStyle::kCluster, 0, Step(100, 203, 0.25),
                           {.seconds_per_batch = 0.0125}),
            "After 100 training steps (203 global steps), loss on training batch is 0.25. "
            "(0.013 sec/batch)");
}

TEST(StepLineTest, OfTowersIsTheClassicOne) {
  EXPECT_EQ(FormatStepLine(ProgressStyle::kTowers, 0, Step(20, 20, 1.2345),
                           {.seconds_per_batch = 0.05, .examples_per_second = 2000}),
            "step 20, loss = 1.23 (2000.0 examples/sec; 0.050 sec/batch)");
}

TEST(StepLineTest, OfDistMnistIsTheClassicOne) {
  EXPECT_EQ(
      FormatStepLine(ProgressStyle::kDistMnist, 1, Step(3, 7, 1), {.unix_seconds = 1500000000.25}),
      "1500000000.250000: Worker 1: training step 3 done (global step: 7)");
}

TEST(StepLineTest, OfSigmoidIsTheClassicOne) {
  StepReport step = Step(101, 201, 2.5);
  step.epoch = 1;
  step.batch = 100;
  step.batches_per_epoch = 550;
  EXPECT_EQ(FormatStepLine(ProgressStyle::kSigmoid, 0, step, {.seconds_per_batch = 0.0035}),
            "Step: 201,  Epoch:  1,  Batch: 100 of 550,  Cost: 2.5000,  AvgTime: 3.50ms");
}

TEST(StepLineTest, OfLinearRegressionIsTheClassicOne) {
  StepReport step = Step(1000, 1000, 0.5);
  step.weight = 2;
  step.bias = 9.75;
  EXPECT_EQ(FormatStepLine(ProgressStyle::kLinearRegression, 0, step, {}),
            "step: 1000, weight: 2.000000, biase: 9.750000, loss: 0.500000");
}

TEST(StepJsonTest, IsOneObjectWithAllFields) {
  const std::string line = FormatStepJson(
      2, Step(10, 25, 0.5),
      {.seconds_per_batch = 0.01, .examples_per_second = 10000, .unix_seconds = 12.5});
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["event"], "step");
  EXPECT_EQ(json["task"], 2);
  EXPECT_EQ(json["step"], 10);
  EXPECT_EQ(json["global_step"], 25);
  EXPECT_EQ(json["loss"], 0.5);
  EXPECT_EQ(json["examples_per_sec"], 10000.0);
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

TEST(StepJsonTest, WritesNullForALossThatIsNotFinite) {
  EXPECT_TRUE(
      nlohmann::json::parse(FormatStepJson(0, Step(1, 1, std::nan("")), {}))["loss"].is_null());
}

TEST(ClosingLinesTest, OfDistMnistGiveTimeAndCrossEntropy) {
  FinalReport report;
  report.global_step = 200;
  report.seconds = 1.5;
  report.validation_cross_entropy = 1234.5;
  EXPECT_EQ(FormatClosingLines(ProgressStyle::kDistMnist, report),
            "Training elapsed time: 1.500000 s\n"
            "After 200 training step(s), validation cross entropy = 1234.5\n");
}

TEST(ClosingLinesTest, OfSigmoidGiveAccuracyTimeAndCost) {
  FinalReport report;
  report.seconds = 12.345;
  report.test_accuracy = 0.5;
  report.final_cost = 2.25;
  EXPECT_EQ(FormatClosingLines(ProgressStyle::kSigmoid, report),
            "Test-Accuracy: 0.50\nTotal Time: 12.35s\nFinal Cost: 2.2500\n");
}

TEST(ClosingLinesTest, OfAClusterAreNone) {
  EXPECT_EQ(FormatClosingLines(ProgressStyle::kCluster, {}), "");
}

TEST(DoneLineTest, IsMachineReadable) {
  FinalReport report;
  report.global_step = 1000;
  report.seconds = 3.2144;
  EXPECT_EQ(FormatDone(report), "done global_step=1000 seconds=3.214");
  report.test_accuracy = 0.98125;
  EXPECT_EQ(FormatDone(report), "done global_step=1000 seconds=3.214 test_accuracy=0.9812");
  EXPECT_EQ(nlohmann::json::parse(FormatDoneJson(report))["test_accuracy"], 0.98125);
}

TEST(DurationTest, IsShort) {
  EXPECT_EQ(FormatDuration(0.4), "0:00");
  EXPECT_EQ(FormatDuration(65), "1:05");
  EXPECT_EQ(FormatDuration(3729), "1:02:09");
  EXPECT_EQ(FormatDuration(-3), "0:00");
  EXPECT_EQ(FormatDuration(1e300), "--:--");
  EXPECT_EQ(FormatDuration(std::nan("")), "--:--");
}

TEST(BarTest, ShowsPartRateAndTimeLeft) {
  const BarState state = {500, 1000, 0.125, 41203.4, 12.0};
  const std::string bar = FormatBar(state, 120);
  EXPECT_EQ(bar, "[==========>         ]  50% 500/1000  loss 0.125  41203 examples/s  0:12 left");
}

TEST(BarTest, IsNeverWiderThanTheTerminal) {
  const BarState state = {500, 1000, 0.125, 41203.4, 12.0};
  for (int width = 0; width < 120; ++width) {
    EXPECT_LE(FormatBar(state, width).size(), static_cast<size_t>(width));
    EXPECT_LE(FormatBar({7, 0, 1.0, 2.0, {}}, width).size(), static_cast<size_t>(width));
  }
}

TEST(BarTest, HasNoEndWhereNoneIsKnown) {
  EXPECT_EQ(FormatBar({7, 0, 0.5, 100.0, {}}, 80), "step 7  loss 0.5  100 examples/s");
}

TEST(RateMeterTest, IsZeroUntilTwoSamples) {
  RateMeter meter;
  EXPECT_EQ(meter.per_second(), 0);
  meter.Add(absl::FromUnixSeconds(10), 5);
  EXPECT_EQ(meter.per_second(), 0);
}

TEST(RateMeterTest, ForgetsWhatIsOlderThanTheWindow) {
  RateMeter meter(absl::Seconds(5));
  for (int second = 0; second <= 20; ++second) {
    meter.Add(absl::FromUnixSeconds(second), second < 10 ? second * 1000 : 10000 + second);
  }
  EXPECT_DOUBLE_EQ(meter.per_second(), 1.0);
}

TEST(RateMeterTest, IsNeverNegative) {
  RateMeter meter;
  meter.Add(absl::FromUnixSeconds(1), 100);
  meter.Add(absl::FromUnixSeconds(2), 200);
  meter.Add(absl::FromUnixSeconds(3), 50);
  EXPECT_EQ(meter.per_second(), 0);
  meter.Add(absl::FromUnixSeconds(4), 60);
  EXPECT_DOUBLE_EQ(meter.per_second(), 10);
}

TEST(RateMeterTest, ManySamplesCountAsWellAsFew) {
  RateMeter meter(absl::Seconds(5));
  for (int i = 0; i <= 100000; ++i) {
    meter.Add(absl::UnixEpoch() + absl::Microseconds(100) * i, i);
  }
  EXPECT_NEAR(meter.per_second(), 10000, 1);
}

class ReporterTest : public ::testing::Test {
 protected:
  ~ReporterTest() override { std::fclose(output_); }
  ProgressOptions Options() {
    ProgressOptions options;
    options.output = output_;
    options.clock = &clock_;
    options.last_step = 1000;
    return options;
  }
  std::string Output() {
    std::string text(static_cast<size_t>(std::ftell(output_)), '\0');
    std::rewind(output_);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), output_), text.size());
    return text;
  }
  void Train(ProgressReporter* reporter, int steps) {
    for (int i = 1; i <= steps; ++i) {
      clock_.Advance(absl::Milliseconds(20));
      reporter->OnStep(Step(i, i, 0.5));
    }
  }

  std::FILE* const output_ = std::tmpfile();
  base::FakeClock clock_{absl::FromUnixSeconds(1000)};
};

TEST_F(ReporterTest, PrintsEveryHundredSteps) {
  ProgressReporter reporter(Options());
  Train(&reporter, 250);
  reporter.Finish({.local_steps = 250, .global_step = 250, .seconds = 5});
  EXPECT_EQ(Output(),
            "After 100 training steps (100 global steps), loss on training batch is 0.5. (0.020 "
            "sec/batch)\n"
            "After 200 training steps (200 global steps), loss on training batch is 0.5. (0.020 "
            "sec/batch)\n"
            "done global_step=250 seconds=5.000\n");
}

TEST_F(ReporterTest, LogEveryThinsTheLines) {
  ProgressOptions options = Options();
  options.style = ProgressStyle::kDistMnist;
  options.log_every = 50;
  ProgressReporter reporter(options);
  Train(&reporter, 100);
  const std::string output = Output();
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 2);
  EXPECT_TRUE(reporter.WouldPrint(150));
  EXPECT_FALSE(reporter.WouldPrint(151));
}

TEST_F(ReporterTest, WritesJsonLines) {
  ProgressOptions options = Options();
  options.json = true;
  options.bar = true;
  ProgressReporter reporter(options);
  Train(&reporter, 200);
  reporter.Finish({.global_step = 200, .seconds = 4, .test_accuracy = 0.9});
  std::istringstream lines(Output());
  std::string line;
  int count = 0;
  for (; std::getline(lines, line); ++count) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json["event"], count < 2 ? "step" : "done");
    if (count < 2) {
      EXPECT_NEAR(json["examples_per_sec"].get<double>(), 5000, 1);
    }
  }
  EXPECT_EQ(count, 3);
}

TEST_F(ReporterTest, DrawsTheBarAtMostTenTimesASecond) {
  ProgressOptions options = Options();
  options.bar = true;
  options.log_every = -1;
  ProgressReporter reporter(options);
  Train(&reporter, 100);  // two seconds
  const std::string output = Output();
  EXPECT_EQ(std::count(output.begin(), output.end(), '\r'), 20);
  EXPECT_THAT(output, HasSubstr("  9% 96/1000  loss 0.5  5000 examples/s  0:18 left\x1b[K"));
}

TEST_F(ReporterTest, TakesTheBarAwayBeforeALineAndAtTheEnd) {
  ProgressOptions options = Options();
  options.bar = true;
  options.log_every = -1;
  {
    ProgressReporter reporter(options);
    Train(&reporter, 1);
    reporter.PrintLine("hello");
    reporter.Finish({.global_step = 1, .seconds = 1});
  }
  const std::string output = Output();
  EXPECT_THAT(output, HasSubstr("\r\x1b[Khello\n\r["));
  EXPECT_TRUE(output.ends_with("\r\x1b[Kdone global_step=1 seconds=1.000\n")) << output;
}

TEST_F(ReporterTest, WithoutATerminalThereIsNoBar) {
  ProgressReporter reporter(Options());
  Train(&reporter, 250);
  EXPECT_THAT(Output(), Not(HasSubstr("\r")));
}

}  // namespace
}  // namespace trainer
