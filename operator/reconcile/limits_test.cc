// When replicas are run again, when a job ends before its time, and what is cleaned up then. The
// letters number the conformance table; cases run in both modes where v1.9 and the default agree.
#include "operator/reconcile/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/reconcile/builders.h"
#include "operator/reconcile/restart.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Limits : public ::testing::TestWithParam<bool> {
 protected:
  PlanOptions options() const { return {.compat_v19 = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Modes, Limits, ::testing::Values(false, true), [](const auto& info) {
  return std::string(info.param ? "AsV19" : "ByDefault");
});

TEST(Restart, IsOnRecordBeforeThePodIsDeleted) {
  World world(MakeJob("j").Workers(2, kRestartOnFailure));
  world.Pod(kWorker, 0);
  const std::string uid = world.Pod(kWorker, 1, kPodFailed, 1).uid;
  const Plan first = world.Step();
  EXPECT_THAT(first.actions, IsEmpty());
  EXPECT_EQ(first.requeue_after, absl::ZeroDuration());
  EXPECT_EQ(world.status().replica_statuses.at(kWorker).restarts, 1);
  EXPECT_THAT(world.status().charged_pods, ElementsAre(uid));
  const Plan second = world.Step();
  EXPECT_THAT(second.actions, ElementsAre(Action(DeletePod{"j-worker-1", uid})));
  EXPECT_THAT(second.events, IsEmpty());
  EXPECT_THAT(NamesOf<CreatePod>(world.Step()), ElementsAre("j-worker-1"));
  EXPECT_THAT(world.status().charged_pods, ElementsAre(uid));
  EXPECT_EQ(world.status().replica_statuses.at(kWorker).restarts, 1);
}

TEST(Restart, IsChargedOnceThoughAnOldListShowsThePodAgain) {
  World world(MakeJob("j").Workers(1, kRestartOnFailure));
  const PodView failed = world.Pod(kWorker, 0, kPodFailed, 1);
  for (int i = 0; i < 3; ++i) world.Step();  // charged, deleted, replaced
  const PodView replacement = world.observed.pods.at(0);
  ASSERT_NE(replacement.uid, failed.uid);
  world.observed.pods = {failed};
  EXPECT_THAT(world.Step().actions, ElementsAre(Action(DeletePod{failed.name, failed.uid})));
  world.observed.pods = {replacement};
  world.Step();
  EXPECT_EQ(world.status().replica_statuses.at(kWorker).restarts, 1);
}

TEST(Restart, IsNotSaidToBeginAgainWhereAnOldListShowsThePodAgain) {
  World world(MakeJob("j").Workers(2, kRestartOnFailure));
  const PodView other = world.Pod(kWorker, 0);
  const PodView failed = world.Pod(kWorker, 1, kPodFailed, 1);
  world.Step();
  EXPECT_TRUE(HasCondition(world.status(), kRestarting));
  for (int i = 0; i < 2; ++i) world.Step();  // deleted, replaced
  world.Pod(kWorker, 1);
  world.Step();
  ASSERT_TRUE(HasCondition(world.status(), kRunning));
  world.observed.pods = {other, failed};
  EXPECT_THAT(world.Step().events, IsEmpty());
  EXPECT_TRUE(HasCondition(world.status(), kRunning));
  EXPECT_FALSE(HasCondition(world.status(), kRestarting));
}

TEST(Restart, RemembersTheLastPodsAndThoseThatAreStillThere) {
  World world(MakeJob("j").Workers(1, kRestartOnFailure));
  const std::string present = world.Pod(kWorker, 0, kPodFailed, 1).uid;
  std::vector<std::string>& charged = world.observed.job.status.charged_pods;
  charged = {present};
  for (size_t i = 0; i < kRememberedPods + 5; ++i) charged.push_back(absl::StrCat("gone-", i));
  world.Step();
  EXPECT_EQ(world.status().charged_pods.size(), kRememberedPods);
  EXPECT_EQ(world.status().charged_pods.at(0), present);
  EXPECT_EQ(world.status().charged_pods.at(1), "gone-6");
}

TEST(Restart, IsDoneAtOnceAsV19) {
  World world(MakeJob("j").Workers(1, kRestartOnFailure), {.compat_v19 = true});
  world.Pod(kWorker, 0, kPodFailed, 1);
  EXPECT_THAT(NamesOf<DeletePod>(world.Step()), ElementsAre("j-worker-0"));
  EXPECT_EQ(world.status().replica_statuses.at(kWorker).restarts, 0);
}

TEST(Restart, OfADisruptedPodCostsNothing) {  // decided divergence 3
  World world(MakeJob("j").Workers(2, kRestartExitCode).Backoff(0));
  world.Pod(kWorker, 0);
  world.Pod(kWorker, 1, kPodFailed).reason = "Evicted";
  EXPECT_THAT(NamesOf<DeletePod>(world.Step()), ElementsAre("j-worker-1"));
  EXPECT_TRUE(world.Has(kRestarting));
  EXPECT_EQ(world.status().replica_statuses.at(kWorker).restarts, 0);
  EXPECT_FALSE(world.Has(kFailed));
}

TEST(Restart, IsDeniedToADisruptedPodUnderNever) {
  World world(MakeJob("j").Workers(1, kRestartNever));
  world.Pod(kWorker, 0, kPodFailed).disrupted = true;
  world.Step();
  EXPECT_TRUE(world.Has(kFailed));
}

TEST(Restart, DoesNotExcuseOthersByDefault) {
  for (const bool compat : {false, true}) {
    World world(MakeJob("j").Ps(1, kRestartNever).Workers(1, kRestartOnFailure),
                {.compat_v19 = compat});
    world.Pod(kPs, 0, kPodFailed, 1);
    world.Pod(kWorker, 0, kPodFailed, 1);
    world.Step();
    EXPECT_EQ(world.Has(kFailed), !compat);
  }
}

TEST(Restart, IsDecidedByExitCode) {  // G10
  for (const int code : {1, 2, 3, 127}) EXPECT_FALSE(IsRetryableExitCode(code)) << code;
  for (const int code : {128, 130, 137, 138, 143}) EXPECT_TRUE(IsRetryableExitCode(code)) << code;
}

TEST(Restart, IsDecidedByTheListOfExitCodesWhereThereIsOne) {
  const auto fails = [](int code) {
    World world(MakeJob("j").Workers(1, kRestartExitCode),
                {.retryable_exit_codes = {130, 137, 138, 143}});
    world.Pod(kWorker, 0, kPodFailed, code);
    world.Step();
    return world.Has(kFailed);
  };
  for (const int code : {1, 127, 128, 139, 255}) EXPECT_TRUE(fails(code)) << code;
  for (const int code : {130, 137, 138, 143}) EXPECT_FALSE(fails(code)) << code;
}

TEST(DynamicWorkers, MayFailWithoutFailingTheJob) {
  World world(MakeJob("j").Ps(1).Workers(2).Dynamic());
  world.Pod(kPs, 0);
  world.Pod(kWorker, 0);
  world.Pod(kWorker, 1, kPodFailed, 1);
  world.Settle();
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Running"));
  EXPECT_EQ(world.status().replica_statuses.at(kWorker).failed, 1);
}

TEST(DynamicWorkers, EndTheJobWhenAllAreOver) {
  const auto verdict = [](JobBuilder builder, PodPhase last) {
    World world(builder.Workers(2).Dynamic());
    world.Pod(kWorker, 0, kPodFailed, 1);
    world.Pod(kWorker, 1, last);
    world.Step();
    return ConditionsOf(world.status()).back();
  };
  EXPECT_EQ(verdict(MakeJob("j"), kPodRunning), "Running");
  EXPECT_EQ(verdict(MakeJob("j"), kPodSucceeded), "Succeeded");
  EXPECT_EQ(verdict(MakeJob("j"), kPodFailed), "Failed");
  EXPECT_EQ(verdict(MakeJob("j").AllWorkers(), kPodSucceeded), "Failed");
}

TEST_P(Limits, FailsAtTheLimitOfContainerRestarts) {  // H1 H2
  const auto fails = [this](int limit, int restarts) {
    World world(MakeJob("j").Workers(4, kRestartOnFailure).Backoff(limit), options());
    world.Pods(kWorker, 4, kPodRunning);
    world.observed.pods[0].restart_count = restarts;
    world.Step();
    return world.Has(kFailed);
  };
  EXPECT_FALSE(fails(0, 0));
  EXPECT_TRUE(fails(0, 1));
  EXPECT_FALSE(fails(3, 2));
  EXPECT_TRUE(fails(3, 3));
}

TEST_P(Limits, CleansUpAfterTheBackoffLimitByPolicy) {  // H1 H11
  for (const char* policy : {kCleanAll, kCleanRunning, kCleanNone}) {
    World world(MakeJob("j").Workers(4, kRestartOnFailure).Backoff(4).Clean(policy), options());
    world.Pods(kWorker, 4, kPodRunning);
    for (PodView& pod : world.observed.pods) pod.restart_count = 1;
    world.Settle();
    EXPECT_EQ(MessageOf(world.status(), kFailed),
              "Job j has failed because it has reached the specified backoff limit");
    const size_t kept = policy == std::string(kCleanNone) ? 4 : 0;
    EXPECT_EQ(world.observed.pods.size(), kept) << policy;
    EXPECT_EQ(world.observed.services.size(), kept) << policy;
  }
}

TEST(Backoff, CountsReplacedPodsAcrossTheirLives) {
  World world(MakeJob("j").Workers(1, kRestartExitCode).Backoff(2));
  for (int life = 0; life < 3; ++life) {
    EXPECT_FALSE(IsFinished(world.status())) << life;
    world.Settle();
    world.Pod(kWorker, 0, kPodFailed, 137);
    world.Settle();
    world.observed.now += absl::Minutes(5);  // past the back-off of the restart
  }
  world.Settle();
  EXPECT_TRUE(world.Has(kFailed));
  EXPECT_THAT(MessageOf(world.status(), kFailed), HasSubstr("backoff limit"));
  EXPECT_EQ(world.status().replica_statuses.at(kWorker).restarts, 2);
}

TEST(Backoff, NeverCountsReplacedPodsAsV19) {
  World world(MakeJob("j").Workers(1, kRestartExitCode).Backoff(2), {.compat_v19 = true});
  for (int life = 0; life < 10; ++life) {
    world.Settle();
    world.Pod(kWorker, 0, kPodFailed, 137);
    world.Settle();
  }
  EXPECT_FALSE(IsFinished(world.status()));
}

TEST_P(Limits, FailsAtItsDeadlineAndAsksToBeWokenThen) {  // H3 H13
  World world(MakeJob("j").Workers(4).Ps(2).Deadline(2).Clean(kCleanAll), options());
  world.Settle();
  for (PodView& pod : world.observed.pods) pod.phase = kPodRunning;
  world.observed.now += absl::Seconds(1);
  EXPECT_EQ(world.Step().requeue_after, absl::Seconds(1));
  EXPECT_EQ(world.observed.pods.size(), 6u);
  world.observed.now += absl::Seconds(1);
  world.Settle();
  EXPECT_EQ(MessageOf(world.status(), kFailed),
            "Job j has failed because it was active longer than specified deadline");
  EXPECT_THAT(world.observed.pods, IsEmpty());
  EXPECT_THAT(world.observed.services, IsEmpty());
}

TEST(Deadline, ComesSecondToSuccessByDefault) {
  World world(MakeJob("j").Workers(1).Deadline(10));
  world.Settle();
  world.Pod(kWorker, 0, kPodSucceeded, 0);
  world.observed.now += absl::Hours(1);
  world.Step();
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Succeeded"));
}

TEST_P(Limits, VanishesAfterItsTtl) {  // H4 H5
  World world(MakeJob("j").Workers(1).Ttl(3), options());
  world.Pod(kWorker, 0, kPodSucceeded, 0);
  world.Step();
  world.observed.now += absl::Seconds(1);
  EXPECT_EQ(world.Step().requeue_after, absl::Seconds(2));
  EXPECT_FALSE(world.deleted);
  world.observed.now += absl::Hours(5);
  EXPECT_THAT(world.Step().actions, ElementsAre(Action(DeleteJob{"j", kTestUid})));
}

TEST_P(Limits, StaysWithoutTtlOrWhileSuspended) {  // H5 H6
  World world(MakeJob("j").Workers(1), options());
  world.Pod(kWorker, 0, kPodSucceeded, 0);
  world.Step();
  world.observed.now += absl::Hours(1000);
  world.Settle();
  EXPECT_FALSE(world.deleted);
  world.observed.job.spec.run_policy.ttl_seconds_after_finished = 0;
  world.observed.job.spec.run_policy.suspend = true;
  world.Settle();
  EXPECT_FALSE(world.deleted);
  world.observed.job.spec.run_policy.suspend = false;
  world.Settle();
  EXPECT_TRUE(world.deleted);
}

TEST_P(Limits, CleansRunningPodsAtTheEnd) {  // H8 H12
  const struct {
    const char* policy;
    size_t pods;
    size_t services;  // of pods that go on; v1.9 keeps those of all pods that it keeps
  } kCases[] = {{kCleanAll, 0, 0}, {kCleanRunning, 5, 0}, {kCleanNone, 7, 2}};
  for (const auto& c : kCases) {
    World world(MakeJob("j").Chief().Ps(2).Workers(4).Clean(c.policy), options());
    world.Pods(kPs, 2, kPodRunning).Pods(kWorker, 4, kPodSucceeded);
    world.Pod(kChief, 0, kPodSucceeded, 0);
    world.Settle();
    EXPECT_EQ(world.observed.pods.size(), c.pods) << c.policy;
    EXPECT_EQ(world.observed.services.size(), GetParam() ? c.pods : c.services) << c.policy;
  }
}

TEST_P(Limits, KeepsFinishedPodsUnlessAllAreToGo) {  // H9
  for (const char* policy : {kCleanRunning, kCleanNone}) {
    World world(MakeJob("j").Workers(4).Ps(2).Clean(policy), options());
    world.Pods(kWorker, 4, kPodSucceeded).Pods(kPs, 2, kPodSucceeded).Settle();
    EXPECT_EQ(world.observed.pods.size(), 6u);
    EXPECT_EQ(world.observed.services.size(), GetParam() ? 6u : 0u);
  }
}

TEST(CleanUp, RemovesServicesWhosePodsAreGoneByDefault) {
  for (const bool compat : {false, true}) {
    World world(MakeJob("j").Workers(1).Clean(kCleanAll), {.compat_v19 = compat});
    world.Pod(kWorker, 0, kPodSucceeded, 0);
    world.Step();
    world.RemovePod(kWorker, 0);
    world.Settle();
    EXPECT_EQ(world.observed.services.size(), compat ? 1u : 0u);
  }
}

TEST_P(Limits, ReportsActiveReplicasAsSucceededAfterSuccess) {  // decided divergence 4
  World world(MakeJob("j").Chief().Ps(2), options());
  world.Pods(kPs, 2, kPodRunning);
  world.Pod(kChief, 0, kPodSucceeded, 0);
  world.Step();
  if (GetParam()) {  // v1.9 takes another write for it
    EXPECT_EQ(world.status().replica_statuses.at(kPs).active, 2);
  }
  world.Settle();
  EXPECT_EQ(world.status().replica_statuses.at(kPs).active, 0);
  EXPECT_EQ(world.status().replica_statuses.at(kPs).succeeded, 2);
  EXPECT_EQ(world.status().replica_statuses.at(kChief).succeeded, 1);
}

TEST(RestartDelay, BeginsWithTheSecondRoundOfAType) {
  World world(MakeJob("j").Workers(2, kRestartExitCode));
  world.Settle();
  const auto fail = [&](int index) {
    world.Pod(kWorker, index, kPodFailed, 137);
    world.Step();  // put on record
    return world.Look();
  };
  EXPECT_THAT(NamesOf<DeletePod>(fail(0)), ElementsAre("j-worker-0"));
  world.Settle();
  EXPECT_THAT(NamesOf<DeletePod>(fail(1)), ElementsAre("j-worker-1"));
  world.Settle();
  const Plan third = fail(0);
  EXPECT_THAT(NamesOf<DeletePod>(third), IsEmpty());
  EXPECT_EQ(third.requeue_after, absl::Seconds(1));
  EXPECT_TRUE(HasCondition(third.status, kRestarting));
  world.observed.now += absl::Seconds(1);
  EXPECT_THAT(NamesOf<DeletePod>(world.Look()), ElementsAre("j-worker-0"));
}

}  // namespace
}  // namespace tfjob
