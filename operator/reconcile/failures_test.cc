// spec.runPolicy.failurePolicy, limits by type, and what the status says of failed pods.
#include "operator/reconcile/failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/reconcile/builders.h"
#include "operator/reconcile/plan.h"
#include "operator/reconcile/restart.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr PodPhase kPodRunning = PodPhase::kRunning;
constexpr PodPhase kPodFailed = PodPhase::kFailed;

FailureRule OnCodes(const std::string& action, std::set<int> codes, bool in = true) {
  return {.action = action, .exit_codes = ExitCodeSet{.in = in, .values = std::move(codes)}};
}

int RestartsOf(const World& world, const std::string& type) {
  return world.status().replica_statuses.at(type).restarts;
}

TEST(FailurePolicy, FirstRuleThatMatchesDecides) {
  TfJob job = MakeJob("j")
                  .Workers(1)
                  .Rule({.action = kIgnore, .types = {kPs}})
                  .Rule(OnCodes(kFailJob, {1, 2}))
                  .Rule({.action = kIgnore, .pod_conditions = {{kDisruptionTarget, kTrue}}})
                  .Rule(OnCodes(kRestartReplica, {3}, /*in=*/false))
                  .job;
  const auto rule_of = [&](const PodView& pod) -> int {
    const FailureRule* rule = RuleFor(job, kWorker, pod);
    return rule == nullptr ? -1 : static_cast<int>(rule - job.spec.run_policy.failure_rules.data());
  };
  EXPECT_EQ(rule_of({.exit_code = 1}), 1);
  EXPECT_EQ(rule_of({.exit_code = 1, .disrupted = true}), 1);
  EXPECT_EQ(rule_of({.exit_code = 143, .disrupted = true}), 2);
  EXPECT_EQ(rule_of({.reason = "Evicted"}), 2);
  EXPECT_EQ(rule_of({.failed_conditions = {{kDisruptionTarget, kFalse}}}), -1);
  EXPECT_EQ(rule_of({.exit_code = 4}), 3);
  EXPECT_EQ(rule_of({.exit_code = 3}), -1);
  EXPECT_EQ(rule_of({}), -1) << "its container never ended: there is no exit code";
  EXPECT_EQ(RuleFor(job, kPs, {.exit_code = 1}), &job.spec.run_policy.failure_rules[0]);
}

TEST(FailurePolicy, FailJobFailsItWhateverTheRestartPolicy) {
  World world(MakeJob("j").Workers(2, kRestartExitCode).Rule(OnCodes(kFailJob, {138})));
  world.Pod(kWorker, 0);
  world.Pod(kWorker, 1, kPodFailed, 138);
  world.Step();
  ASSERT_TRUE(world.Has(kFailed));
  EXPECT_THAT(MessageOf(world.status(), kFailed),
              HasSubstr("pod j-worker-1 did: rule 0 of spec.runPolicy.failurePolicy"));
}

TEST(FailurePolicy, FailJobSparesNoDynamicWorker) {
  World world(MakeJob("j").Ps(1).Workers(2).Dynamic().Rule(OnCodes(kFailJob, {4})));
  world.Pod(kPs, 0);
  world.Pod(kWorker, 0);
  world.Pod(kWorker, 1, kPodFailed, 3);
  world.Settle();
  EXPECT_FALSE(world.Has(kFailed));
  world.Pod(kWorker, 1, kPodFailed, 4);
  world.Step();
  EXPECT_TRUE(world.Has(kFailed));
}

TEST(FailurePolicy, RestartReplicaReplacesAndCountsEvenUnderNever) {
  World world(MakeJob("j").Workers(2, kRestartNever).Rule(OnCodes(kRestartReplica, {1})));
  world.Pod(kWorker, 0);
  const std::string uid = world.Pod(kWorker, 1, kPodFailed, 1).uid;
  world.Step();
  EXPECT_EQ(RestartsOf(world, kWorker), 1);
  EXPECT_THAT(world.Step().actions, ElementsAre(Action(DeletePod{"j-worker-1", uid})));
  EXPECT_THAT(NamesOf<CreatePod>(world.Step()), ElementsAre("j-worker-1"));
}

TEST(FailurePolicy, IgnoredFailuresAreReplacedAndDoNotCount) {
  FailureRule free = OnCodes(kRestartReplica, {2});
  free.counts = false;
  World world(
      MakeJob("j").Workers(2, kRestartExitCode).Backoff(0).Rule(OnCodes(kIgnore, {1})).Rule(free));
  world.Pod(kWorker, 0, kPodFailed, 1);
  world.Pod(kWorker, 1, kPodFailed, 2);
  EXPECT_THAT(NamesOf<DeletePod>(world.Step()), ElementsAre("j-worker-0", "j-worker-1"));
  EXPECT_EQ(RestartsOf(world, kWorker), 0);
  EXPECT_FALSE(world.Has(kFailed));
}

TEST(FailurePolicy, CountedDisruptionsUseUpTheLimit) {
  World world(
      MakeJob("j")
          .Workers(1, kRestartExitCode)
          .Backoff(0)
          .Rule({.action = kRestartReplica, .pod_conditions = {{kDisruptionTarget, kTrue}}}));
  world.Pod(kWorker, 0, kPodFailed).disrupted = true;
  world.Step();
  EXPECT_TRUE(world.Has(kFailed));
}

TEST(FailurePolicy, IsUnknownToV19) {
  World world(MakeJob("j").Workers(1, kRestartExitCode).Rule(OnCodes(kFailJob, {137})),
              {.compat_v19 = true});
  world.Pod(kWorker, 0, kPodFailed, 137);
  EXPECT_THAT(NamesOf<DeletePod>(world.Step()), ElementsAre("j-worker-0"));
  EXPECT_FALSE(world.Has(kFailed));
  EXPECT_THAT(world.status().failures, IsEmpty());
}

// A job whose parameter server takes all others with it.
World WorldOfOne() {
  World world(MakeJob("j")
                  .Ps(1, kRestartExitCode)
                  .Workers(2, kRestartExitCode)
                  .Rule({.action = kRestartJob, .types = {kPs}}));
  world.Pod(kPs, 0, kPodFailed, 137);
  world.Pods(kWorker, 2, kPodRunning);
  return world;
}

TEST(RestartJob, DeletesAllPodsAndMakesThemAgainTogether) {
  World world = WorldOfOne();
  const std::string cause = world.Pod(kPs, 0, kPodFailed, 137).uid;
  EXPECT_THAT(world.Step().actions, IsEmpty()) << "first it goes on record";
  EXPECT_EQ(world.status().charged_pods.size(), 3u);
  EXPECT_EQ(world.status().charged_pods.back(), cause) << "an old list may show it again";
  EXPECT_EQ(RestartsOf(world, kPs), 1);
  EXPECT_EQ(RestartsOf(world, kWorker), 0);
  EXPECT_THAT(MessageOf(world.status(), kRestarting),
              HasSubstr("as a whole because pod j-ps-0 failed"));
  EXPECT_THAT(NamesOf<DeletePod>(world.Step()),
              UnorderedElementsAre("j-ps-0", "j-worker-0", "j-worker-1"));
  EXPECT_THAT(NamesOf<CreatePod>(world.Step()), ElementsAre("j-ps-0", "j-worker-0", "j-worker-1"));
  world.Pods(kPs, 1, kPodRunning).Pods(kWorker, 2, kPodRunning).Settle();
  EXPECT_TRUE(world.Has(kRunning));
  EXPECT_EQ(RestartsOf(world, kPs), 1);
}

TEST(RestartJob, WaitsForTheLastPodOfBefore) {
  World world = WorldOfOne();
  world.Step();
  world.Pod(kWorker, 1).deletion_time = world.observed.now;  // and it takes its time
  world.Step();
  EXPECT_EQ(world.observed.pods.size(), 1u);
  EXPECT_THAT(NamesOf<CreatePod>(world.Step()), IsEmpty());
  EXPECT_FALSE(world.Has(kRunning));
  world.RemovePod(kWorker, 1);
  EXPECT_THAT(NamesOf<CreatePod>(world.Step()).size(), 3u);
}

TEST(RestartJob, GoesOnAfterAnOperatorDiedInTheMiddle) {
  World world = WorldOfOne();
  world.Step();
  world.RemovePod(kPs, 0);  // the cause is gone, two pods of before still run
  EXPECT_THAT(NamesOf<DeletePod>(world.Look()), ElementsAre("j-worker-0", "j-worker-1"));
  EXPECT_THAT(NamesOf<CreatePod>(world.Look()), IsEmpty());
}

TEST(RestartJob, CountsOnceHoweverManyPodsFailed) {
  World world = WorldOfOne();
  world.Pod(kWorker, 0, kPodFailed, 138);
  world.Pod(kWorker, 1, kPodFailed, 138);
  world.observed.job.spec.run_policy.backoff_limit = 1;
  world.Step();
  EXPECT_FALSE(world.Has(kFailed));
  EXPECT_EQ(RestartsOf(world, kPs), 1);
  EXPECT_EQ(RestartsOf(world, kWorker), 0);
}

TEST(RestartJob, SparesReplicasThatHaveSucceeded) {
  World world = WorldOfOne();
  world.Pod(kWorker, 1, PodPhase::kSucceeded, 0);
  world.Step();
  EXPECT_THAT(NamesOf<DeletePod>(world.Step()), UnorderedElementsAre("j-ps-0", "j-worker-0"));
  EXPECT_THAT(NamesOf<CreatePod>(world.Step()), ElementsAre("j-ps-0", "j-worker-0"));
}

TEST(RestartJob, TakesAWorkerWithItWhoseFailureWasTolerated) {
  World world(MakeJob("j")
                  .Ps(1, kRestartExitCode)
                  .Workers(2)
                  .Dynamic()
                  .Rule({.action = kRestartJob, .types = {kPs}}));
  world.Pod(kPs, 0, kPodFailed, 137);
  world.Pod(kWorker, 0);
  world.Pod(kWorker, 1, kPodFailed, 1);
  world.Step();
  EXPECT_EQ(NamesOf<DeletePod>(world.Step()).size(), 3u);
  EXPECT_EQ(NamesOf<CreatePod>(world.Step()).size(), 3u);
}

TEST(RestartJob, BacksOffFromTheSecondTimeOn) {
  World world = WorldOfOne();
  world.Settle();
  for (PodView& pod : world.observed.pods) pod.phase = kPodRunning;
  world.Settle();
  world.Pod(kPs, 0, kPodFailed, 137);
  world.Step();
  EXPECT_EQ(RestartsOf(world, kPs), 2);
  const Plan waiting = world.Step();
  EXPECT_THAT(waiting.actions, IsEmpty());
  EXPECT_EQ(waiting.requeue_after, absl::Seconds(1));
  world.observed.now += absl::Seconds(1);
  EXPECT_EQ(NamesOf<DeletePod>(world.Step()).size(), 3u);
}

TEST(RestartJob, ThatDoesNotCountIsOnRecordToo) {
  World world = WorldOfOne();
  world.observed.job.spec.run_policy.failure_rules[0].counts = false;
  world.observed.job.spec.run_policy.backoff_limit = 0;
  EXPECT_THAT(world.Step().actions, IsEmpty());
  EXPECT_EQ(RestartsOf(world, kPs), 0);
  EXPECT_EQ(NamesOf<DeletePod>(world.Step()).size(), 3u);
  EXPECT_FALSE(world.Has(kFailed));
}

TEST(BackoffLimitOfAType, CountsItsOwnRestartsOnly) {
  World world(MakeJob("j").Ps(1, kRestartExitCode).Workers(1, kRestartExitCode));
  world.observed.job.spec.replicas->at(kWorker).backoff_limit = 0;
  world.Pod(kPs, 0, kPodFailed, 137);
  world.Pod(kWorker, 0);
  world.Step();
  EXPECT_FALSE(world.Has(kFailed));
  world.Pod(kWorker, 0, kPodFailed, 137);
  world.Step();
  EXPECT_THAT(MessageOf(world.status(), kFailed), HasSubstr("its Worker replicas have reached"));
}

TEST(Failures, OfTheFirstPodsAndTheLastAreInTheStatus) {
  World world(MakeJob("j").Workers(6, kRestartExitCode));
  for (int i = 0; i < 6; ++i) {
    PodView& pod = world.Pod(kWorker, i, kPodFailed, 137);
    pod.end_reason = "OOMKilled";
    pod.end_message = absl::StrCat("last words of ", i);
    pod.end_time = world.observed.now - absl::Seconds(10 - i);
  }
  world.Step();
  const std::vector<PodFailure>& failures = world.status().failures;
  ASSERT_EQ(failures.size(), 4u);
  EXPECT_EQ(failures[0].pod, "j-worker-0");
  EXPECT_EQ(failures[2].pod, "j-worker-2");
  EXPECT_EQ(failures[3].pod, "j-worker-5");
  EXPECT_EQ(failures[3].exit_code, 137);
  EXPECT_EQ(failures[3].reason, "OOMKilled");
  EXPECT_EQ(failures[3].message, "last words of 5");
  const TfJobStatus before = world.status();
  EXPECT_EQ(world.Look().status.failures, before.failures) << "said once";
}

TEST(Failures, StayInTheStatusOfAFailedJob) {
  World world(MakeJob("j").Workers(1));
  world.Pod(kWorker, 0, kPodFailed, 2).end_reason = "Error";
  world.Settle();
  ASSERT_TRUE(world.Has(kFailed));
  ASSERT_EQ(world.status().failures.size(), 1u);
  EXPECT_EQ(world.status().failures[0].exit_code, 2);
}

}  // namespace
}  // namespace tfjob
