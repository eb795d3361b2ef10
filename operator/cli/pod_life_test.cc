#include "operator/cli/pod_life.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/str_cat.h"

namespace tfjob {
namespace {

using State = ContainerLife::State;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

PodLife MakePod(const std::string& policy, const std::string& more = "") {
  return PodLife(
      Json::parse(base::StrCat(R"({"spec": {"restartPolicy": ")", policy,
                               R"(", "containers": [{"name": "tensorflow"}])", more, "}}")));
}

TEST(PodLife, FollowsTheTableOfRestartPolicies) {
  const struct {
    const char* policy;
    int code;
    bool restarts;
    PodPhase phase;
  } kTable[] = {
      {"Always", 0, true, PodPhase::kRunning},       {"Always", 1, true, PodPhase::kRunning},
      {"OnFailure", 0, false, PodPhase::kSucceeded}, {"OnFailure", 1, true, PodPhase::kRunning},
      {"OnFailure", 137, true, PodPhase::kRunning},  {"Never", 0, false, PodPhase::kSucceeded},
      {"Never", 1, false, PodPhase::kFailed},        {"Never", 143, false, PodPhase::kFailed},
  };
  for (const auto& row : kTable) {
    PodLife pod = MakePod(row.policy);
    EXPECT_EQ(pod.phase(), PodPhase::kPending);
    EXPECT_THAT(pod.ToStart(kStart), ElementsAre(0));
    pod.OnStarted(0);
    EXPECT_EQ(pod.phase(), PodPhase::kRunning);
    EXPECT_THAT(pod.ToStart(kStart), IsEmpty());
    pod.OnExited(0, row.code, kStart);
    EXPECT_EQ(pod.phase(), row.phase) << row.policy << row.code;
    EXPECT_EQ(pod.RestartCount(), row.restarts ? 1 : 0);
    EXPECT_EQ(pod.ExitCode().has_value(), !row.restarts);
    EXPECT_EQ(pod.ToStart(kStart).size(), row.restarts ? 1 : 0);
  }
}

TEST(PodLife, WaitsLongerBeforeEachRestartUpToACap) {
  PodLife pod = MakePod("Always");
  absl::Time now = kStart;
  std::vector<absl::Duration> delays;
  for (int i = 0; i < 8; ++i) {
    pod.OnStarted(0);
    pod.OnExited(0, 1, now);
    delays.push_back(*pod.NextStart() - now);
    EXPECT_EQ(pod.ToStart(now).size(), delays.back() == absl::ZeroDuration() ? 1 : 0);
    now = *pod.NextStart();
    EXPECT_THAT(pod.ToStart(now), ElementsAre(0));
  }
  EXPECT_THAT(delays, ElementsAre(absl::ZeroDuration(), absl::Milliseconds(250),
                                  absl::Milliseconds(500), absl::Seconds(1), absl::Seconds(2),
                                  absl::Seconds(4), absl::Seconds(5), absl::Seconds(5)));
}

TEST(PodLife, RunsInitContainersOneByOneAndThenAllOthers) {
  PodLife pod(Json::parse(
      R"({"spec": {"restartPolicy": "Never", "initContainers": [{"name": "a"}, {"name": "b"}],
                              "containers": [{"name": "tensorflow"}, {"name": "side"}]}})"));
  for (size_t init : {0, 1}) {
    EXPECT_THAT(pod.ToStart(kStart), ElementsAre(init));
    pod.OnStarted(init);
    EXPECT_THAT(pod.ToStart(kStart), IsEmpty());
    EXPECT_EQ(pod.phase(), PodPhase::kPending);
    pod.OnExited(init, 0, kStart);
  }
  EXPECT_THAT(pod.ToStart(kStart), ElementsAre(2, 3));
  pod.OnStarted(2);
  pod.OnStarted(3);
  pod.OnExited(2, 0, kStart);
  EXPECT_EQ(pod.phase(), PodPhase::kRunning);
  EXPECT_EQ(pod.ExitCode(), 0);
  pod.OnExited(3, 1, kStart);
  EXPECT_EQ(pod.phase(), PodPhase::kFailed);
}

TEST(PodLife, FailsWithItsInitContainerWhenNothingRestarts) {
  PodLife pod = MakePod("Never", R"(, "initContainers": [{"name": "a"}])");
  pod.OnStarted(0);
  pod.OnExited(0, 5, kStart);
  EXPECT_EQ(pod.phase(), PodPhase::kFailed);
  EXPECT_THAT(pod.ToStart(kStart), IsEmpty());
}

TEST(PodLife, EndsSidecarsWhenTheOthersHaveEnded) {
  PodLife pod =
      MakePod("OnFailure", R"(, "initContainers": [{"name": "side", "restartPolicy": "Always"}])");
  EXPECT_THAT(pod.ToStart(kStart), ElementsAre(0));
  pod.OnStarted(0);
  EXPECT_THAT(pod.ToStart(kStart), ElementsAre(1));
  pod.OnStarted(1);
  pod.OnExited(0, 1, kStart);
  EXPECT_THAT(pod.ToStart(kStart), ElementsAre(0));  // the sidecar alone
  pod.OnStarted(0);
  EXPECT_FALSE(pod.OnlySidecarsLeft());
  pod.OnExited(1, 0, kStart);
  EXPECT_TRUE(pod.OnlySidecarsLeft());
  EXPECT_EQ(pod.phase(), PodPhase::kRunning);
  pod.OnExited(0, 143, kStart);
  EXPECT_EQ(pod.phase(), PodPhase::kSucceeded);
}

TEST(PodLife, StartsNothingOnceItIsStopped) {
  PodLife pod = MakePod("Always");
  pod.OnStarted(0);
  pod.Stop();
  pod.OnExited(0, 143, kStart);
  EXPECT_THAT(pod.ToStart(kStart + absl::Hours(1)), IsEmpty());
  EXPECT_FALSE(pod.NextStart().has_value());
}

TEST(PodLife, WaitsBeforeReplacingAPod) {
  PodLife pod = MakePod("Never");
  pod.DelayUntil(kStart + absl::Seconds(1));
  EXPECT_THAT(pod.ToStart(kStart), IsEmpty());
  EXPECT_EQ(pod.NextStart(), kStart + absl::Seconds(1));
}

}  // namespace
}  // namespace tfjob
