#include "trainer/report/monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/exit_codes.h"

namespace trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MonitorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    MonitorOptions options;
    options.address = "127.0.0.1";
    options.task = {"worker", 1};
    options.last_step = 1000;
    options.clock = &clock_;
    auto monitor = Monitor::Start(options);
    ASSERT_TRUE(monitor.ok()) << monitor.status();
    monitor_ = *std::move(monitor);
  }
  std::string Get(const std::string& path) {
    httplib::Client client("127.0.0.1", monitor_->port());
    const auto response = client.Get(path);
    if (!response || response->status != 200) return "no answer";
    return response->body;
  }

  base::FakeClock clock_{absl::FromUnixSeconds(1000)};
  std::unique_ptr<Monitor> monitor_;
};

TEST_F(MonitorTest, SaysThatItIsHealthy) { EXPECT_EQ(Get("/healthz"), "ok\n"); }

TEST_F(MonitorTest, CountersExistFromTheStart) {
  EXPECT_THAT(Get("/metrics"),
              AllOf(HasSubstr("trainyard_trainer_steps_total{job=\"worker\",task=\"1\"} 0"),
                    HasSubstr("trainyard_trainer_stale_dropped_total{job=\"worker\",task=\"1\"} 0"),
                    HasSubstr("# TYPE trainyard_trainer_step_seconds histogram")));
}

TEST_F(MonitorTest, CountsSteps) {
  monitor_->OnStep({.global_step = 5, .loss = 0.5, .examples = 100, .seconds = 0.002});
  monitor_->OnStep({.global_step = 7,
                    .loss = 0.25,
                    .examples = 100,
                    .seconds = 0.2,
                    .staleness = 1,
                    .dropped = true});
  monitor_->OnCheckpoint(absl::Milliseconds(70));
  monitor_->OnEvaluation(0.75);
  const std::string labels = "{job=\"worker\",task=\"1\"} ";
  const std::string metrics = Get("/metrics");
  for (const char* expected : {"global_step|7", "loss|0.25", "steps_total|2", "examples_total|200",
                               "stale_dropped_total|1", "staleness|1", "step_seconds_count|2",
                               "checkpoint_seconds_count|1", "accuracy|0.75", "last_step|1000"}) {
    std::string line = std::string("trainyard_trainer_") + expected + "\n";
    line.replace(line.find('|'), 1, labels);
    EXPECT_THAT(metrics, HasSubstr(line));
  }
}

TEST_F(MonitorTest, TellsProgressAsJson) {
  for (int step = 1; step <= 100; ++step) {
    clock_.Advance(absl::Milliseconds(100));
    monitor_->OnStep({.global_step = 2 * step, .loss = 0.5, .examples = 100, .seconds = 0.1});
  }
  const auto progress = nlohmann::json::parse(Get("/progress"));
  EXPECT_EQ(progress["job"], "worker");
  EXPECT_EQ(progress["task"], 1);
  EXPECT_EQ(progress["global_step"], 200);
  EXPECT_EQ(progress["last_step"], 1000);
  EXPECT_EQ(progress["loss"], 0.5);
  EXPECT_NEAR(progress["examples_per_sec"].get<double>(), 1000, 30);
  EXPECT_NEAR(progress["eta_seconds"].get<double>(), 40, 1);
  EXPECT_EQ(progress["updated"], "1970-01-01T00:16:50.000Z");
}

TEST_F(MonitorTest, WritesNullForWhatItDoesNotKnow) {
  auto progress = nlohmann::json::parse(Get("/progress"));
  EXPECT_TRUE(progress["loss"].is_null());
  EXPECT_TRUE(progress["eta_seconds"].is_null());
  EXPECT_TRUE(progress["updated"].is_null());
  monitor_->OnStep({.global_step = 1, .loss = std::nan("")});
  EXPECT_TRUE(nlohmann::json::parse(Get("/progress"))["loss"].is_null());
}

TEST_F(MonitorTest, AsksForTotalsBeforeEachAnswer) {
  int64_t step = 0;
  monitor_->SetSampler([&step] {
    step += 10;
    return MonitorTotals{.global_step = step, .pushes = 2 * step, .live_workers = 3};
  });
  EXPECT_THAT(Get("/metrics"), HasSubstr("pushes_total{job=\"worker\",task=\"1\"} 20\n"));
  EXPECT_EQ(nlohmann::json::parse(Get("/progress"))["global_step"], 20);
  EXPECT_THAT(Get("/metrics"), AllOf(HasSubstr("pushes_total{job=\"worker\",task=\"1\"} 60\n"),
                                     HasSubstr("live_workers{job=\"worker\",task=\"1\"} 3\n")));
}

TEST_F(MonitorTest, APortInUseIsTheUsersMistake) {
  MonitorOptions options;
  options.address = "127.0.0.1";
  options.port = monitor_->port();
  const auto second = Monitor::Start(options);
  EXPECT_EQ(base::ExitCodeFor(second.status()), base::kExitUsage);
  EXPECT_THAT(second.status().message(),
              HasSubstr("127.0.0.1:" + std::to_string(monitor_->port())));
}

TEST(MonitorLifeTest, StopsAtOnceHoweverShortItLived) {
  for (int i = 0; i < 20; ++i) {
    MonitorOptions options;
    options.address = "127.0.0.1";
    ASSERT_TRUE(Monitor::Start(options).ok());
  }
}

}  // namespace
}  // namespace trainer
