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
  const auto rule_of = [&](PodView pod) -> int {
    pod.phase = kPodFailed;
    const FailureRule* rule = RuleFor(job, kWorker, pod, absl::Now());
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
  EXPECT_EQ(RuleFor(job, kPs, {.phase = kPodFailed, .exit_code = 1}, absl::Now()),
            &job.spec.run_policy.failure_rules[0]);
}

TEST(FailurePolicy, FailJobFailsItWhateverTheRestartPolicy) {
  World world(MakeJob("j").Workers(2, kRestartExitCode).Rule(OnCodes(kFailJob, {138})));
  world.Pod(kWorker, 0);
  world.Pod(kWorker, 1, kPodFailed, 138);
  world.Step();
  ASSERT_TRUE(world.Has(kFailed));
  EXPECT_THAT(MessageOf(world.status(), kFailed),
              HasSubstr("pod j-worker-1 failed: rule 0 of spec.runPolicy.failurePolicy"));
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

// Two workers, of which the second was made just now and cannot be placed.
World WithPendingWorker(const FailureRule& rule, std::optional<int> backoff_limit = std::nullopt) {
  JobBuilder job = MakeJob("j").Ps(1).Workers(2).Rule(rule);
  if (backoff_limit) job.Backoff(*backoff_limit);
  World world(job);
  world.Pod(kPs, 0);
  world.Pod(kWorker, 0);
  PodView& pod = world.Pod(kWorker, 1, PodPhase::kPending);
  pod.creation_time = world.observed.now;
  pod.waiting_reason = "Unschedulable";
  pod.waiting_message = "0/3 nodes are available";
  world.Settle();
  return world;
}

TEST(PendingTooLong, FailsTheJobWithTheSchedulersReason) {
  World world = WithPendingWorker({.action = kFailJob, .pending_seconds = 300});
  EXPECT_EQ(world.Look().requeue_after, absl::Seconds(300));
  world.observed.now += absl::Seconds(299);
  EXPECT_EQ(world.Look().requeue_after, absl::Seconds(1));
  EXPECT_FALSE(HasCondition(world.Look().status, kFailed));
  world.observed.now += absl::Seconds(1);
  world.Step();
  EXPECT_EQ(
      MessageOf(world.status(), kFailed),
      "TFJob ns/j has failed because pod j-worker-1 was pending for 300 s (Unschedulable: 0/3 "
      "nodes are available): rule 0 of spec.runPolicy.failurePolicy");
  ASSERT_EQ(world.status().failures.size(), 1u);
  EXPECT_EQ(world.status().failures[0].pod, "j-worker-1");
  EXPECT_EQ(world.status().failures[0].reason, "Unschedulable");
  EXPECT_EQ(world.status().failures[0].exit_code, std::nullopt);
}

TEST(PendingTooLong, IsNothingOnceThePodRunsOrLeaves) {
  World world = WithPendingWorker({.action = kFailJob, .pending_seconds = 300});
  world.observed.now += absl::Hours(1);
  world.Pod(kWorker, 1, PodPhase::kPending).deletion_time = world.observed.now;
  EXPECT_FALSE(HasCondition(world.Look().status, kFailed));
  world.Pod(kWorker, 1, kPodRunning).deletion_time.reset();
  EXPECT_FALSE(HasCondition(world.Look().status, kFailed));
  EXPECT_EQ(world.Look().requeue_after, std::nullopt);
}

TEST(PendingTooLong, SpeaksOfItsTypesAndNotOfFailedPods) {
  World world = WithPendingWorker({.action = kFailJob, .types = {kPs}, .pending_seconds = 1});
  world.observed.now += absl::Hours(1);
  EXPECT_FALSE(HasCondition(world.Look().status, kFailed));
  world.observed.job.spec.run_policy.failure_rules[0].types.clear();
  world.Pod(kWorker, 1, kPodFailed, 1);
  EXPECT_THAT(MessageOf(world.Look().status, kFailed), HasSubstr("1 Worker replica(s) failed"));
}

TEST(PendingTooLong, ReplacesThePodAndCountsUntilTheLimit) {
  World world =
      WithPendingWorker({.action = kRestartReplica, .pending_seconds = 60}, /*backoff_limit=*/1);
  const std::string uid = world.Pod(kWorker, 1, PodPhase::kPending).uid;
  world.observed.now += absl::Seconds(60);
  EXPECT_THAT(world.Step().actions, IsEmpty()) << "on record before it is done";
  EXPECT_EQ(RestartsOf(world, kWorker), 1);
  EXPECT_THAT(MessageOf(world.status(), kRestarting), HasSubstr("was pending for 60 s"));
  EXPECT_THAT(NamesOf<DeletePod>(world.Step()), ElementsAre("j-worker-1"));
  EXPECT_THAT(NamesOf<CreatePod>(world.Step()), ElementsAre("j-worker-1"));
  EXPECT_NE(world.Pod(kWorker, 1, PodPhase::kPending).uid, uid);
  world.Pod(kWorker, 1, PodPhase::kPending).creation_time = world.observed.now;
  world.observed.now += absl::Seconds(60);
  world.Step();
  EXPECT_THAT(MessageOf(world.status(), kFailed), HasSubstr("backoff limit"));
}

TEST(PendingTooLong, RestartsTheJobAsAWhole) {
  World world = WithPendingWorker({.action = kRestartJob, .pending_seconds = 60});
  world.observed.now += absl::Seconds(60);
  world.Step();
  EXPECT_THAT(NamesOf<DeletePod>(world.Step()),
              UnorderedElementsAre("j-ps-0", "j-worker-0", "j-worker-1"));
  EXPECT_THAT(NamesOf<CreatePod>(world.Step()), ElementsAre("j-ps-0", "j-worker-0", "j-worker-1"));
  EXPECT_EQ(RestartsOf(world, kWorker), 1);
}

// A worker whose node was lost: it should have been gone a minute ago, and a whole restart waits.
World WithLostPod(absl::Duration timeout) {
  World world(MakeJob("j").Workers(2, kRestartExitCode), {.lost_pod_timeout = timeout});
  world.Pod(kWorker, 0);
  PodView& pod = world.Pod(kWorker, 1);
  world.Settle();
  pod.disrupted = true;
  pod.deletion_time = world.observed.now;
  world.observed.now += absl::Minutes(1);
  return world;
}

TEST(LostPods, AreWaitedForUnlessToldOtherwise) {
  World world = WithLostPod(absl::ZeroDuration());
  EXPECT_THAT(world.Look().actions, IsEmpty());
  EXPECT_EQ(world.Look().requeue_after, std::nullopt);
}

TEST(LostPods, AreDeletedByForceAfterTheirTime) {
  World world = WithLostPod(absl::Minutes(5));
  EXPECT_THAT(world.Look().actions, IsEmpty());
  EXPECT_EQ(world.Look().requeue_after, absl::Minutes(4));
  world.observed.now += absl::Minutes(4);
  const Plan plan = world.Step();
  ASSERT_EQ(plan.actions.size(), 1u);
  EXPECT_EQ(plan.actions[0],
            Action(DeletePod{.name = "j-worker-1", .uid = "uid-3", .force = true}));
  EXPECT_THAT(NamesOf<CreatePod>(world.Step()), ElementsAre("j-worker-1"));
  EXPECT_EQ(RestartsOf(world, kWorker), 0);
}

TEST(LostPods, AreThoseThatTheClusterTookAway) {
  World world = WithLostPod(absl::Seconds(1));
  world.Pod(kWorker, 1).disrupted = false;
  EXPECT_THAT(world.Look().actions, IsEmpty()) << "its node lives and is slow";
  world.Pod(kWorker, 1).disrupted = true;
  world.Pod(kWorker, 1).owner_uid = "other";
  EXPECT_THAT(NamesOf<DeletePod>(world.Look()), IsEmpty());
}

TEST(LostPods, OfFinishedJobsGoOneByOne) {
  World world = WithLostPod(absl::Seconds(1));
  world.observed.job.spec.run_policy.clean_pod_policy = kCleanAll;
  for (PodView& pod : world.observed.pods) pod.job_uid = kTestUid;
  for (ServiceView& service : world.observed.services) service.job_uid = kTestUid;
  world.Pod(kWorker, 0, PodPhase::kSucceeded, 0);
  world.Step();
  const Plan plan = world.Look();
  EXPECT_THAT(NamesOf<DeletePod>(plan), UnorderedElementsAre("j-worker-0", "j-worker-1"));
  EXPECT_FALSE(plan.deletes_all_pods);
  EXPECT_TRUE(plan.deletes_all_services);
}

}  // namespace
}  // namespace tfjob
