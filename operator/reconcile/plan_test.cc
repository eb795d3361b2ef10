// What a job is said to be: conditions, counters, success, suspension, bad specs. The letters
// number the conformance table; cases run in both modes where v1.9 and the default agree.
#include "operator/reconcile/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/reconcile/builders.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class BothModes : public ::testing::TestWithParam<bool> {
 protected:
  PlanOptions options() const { return {.compat_v19 = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Modes, BothModes, ::testing::Values(false, true), [](const auto& info) {
  return std::string(info.param ? "AsV19" : "ByDefault");
});

TEST_P(BothModes, CountsRunningReplicas) {  // E4
  World world(MakeJob("j").Workers(4).Ps(2), options());
  world.Pods(kWorker, 4, kPodRunning).Pods(kPs, 2, kPodRunning).Step();
  EXPECT_EQ(world.status().replica_statuses.at(kWorker).active, 4);
  EXPECT_EQ(world.status().replica_statuses.at(kPs).active, 2);
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Running"));
  EXPECT_EQ(MessageOf(world.status(), kCreated), "TFJob j is created.");
  EXPECT_EQ(MessageOf(world.status(), kRunning), "TFJob ns/j is running.");
  EXPECT_EQ(world.status().start_time, world.observed.now);
}

TEST_P(BothModes, SucceedsWhenAllHaveSucceeded) {  // E8
  World world(MakeJob("j").Workers(4).Ps(2), options());
  world.Pods(kWorker, 4, kPodSucceeded).Pods(kPs, 2, kPodSucceeded).Step();
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Succeeded"));
  EXPECT_EQ(MessageOf(world.status(), kSucceeded), "TFJob ns/j successfully completed.");
  EXPECT_EQ(world.status().replica_statuses.at(kWorker).succeeded, 4);
  EXPECT_EQ(world.status().replica_statuses.at(kPs).succeeded, 2);
  EXPECT_EQ(world.status().completion_time, world.observed.now);
}

struct StatusCase {
  const char* id;
  JobBuilder job;
  std::vector<std::pair<std::string, std::vector<PodPhase>>> pods;
  std::string expected;
  bool worker_zero_exits_well = false;
};

std::vector<StatusCase> StatusCases() {
  const JobBuilder chief = MakeJob("j").Chief().Workers(1);
  const JobBuilder wide = MakeJob("j").Chief().Ps(2).Workers(4);
  const JobBuilder no_chief = MakeJob("j").Ps(2).Workers(4);
  const JobBuilder all = MakeJob("j").Ps(2).Workers(4).AllWorkers();
  const std::vector<PodPhase> two_running(2, kPodRunning);
  const std::vector<PodPhase> four_done(4, kPodSucceeded);
  const std::vector<PodPhase> four_failed(4, kPodFailed);
  const std::vector<PodPhase> first_done = {kPodSucceeded, kPodRunning, kPodRunning, kPodRunning};
  return {
      {"F1", chief, {{kChief, {kPodSucceeded}}, {kWorker, {kPodSucceeded}}}, kSucceeded},
      {"F2", chief, {{kChief, {kPodRunning}}, {kWorker, {kPodPending}}}, kRunning},
      {"F3", chief, {{kChief, {kPodFailed}}, {kWorker, {kPodRunning}}}, kFailed},
      {"F4 failed", MakeJob("j").Workers(1), {{kWorker, {kPodFailed}}}, kFailed},
      {"F4 succeeded", MakeJob("j").Workers(1), {{kWorker, {kPodSucceeded}}}, kSucceeded},
      {"F4 running", MakeJob("j").Workers(1), {{kWorker, {kPodRunning}}}, kRunning},
      {"F5",
       no_chief,
       {{kPs, two_running}, {kWorker, {kPodSucceeded, kPodSucceeded, kPodRunning, kPodRunning}}},
       kRunning},
      {"F6",
       no_chief,
       {{kPs, two_running}, {kWorker, {kPodRunning, kPodRunning, kPodFailed, kPodFailed}}},
       kFailed},
      {"F7",
       no_chief,
       {{kPs, two_running}, {kWorker, {kPodSucceeded, kPodSucceeded, kPodFailed, kPodFailed}}},
       kFailed},
      {"F8", no_chief, {{kPs, two_running}, {kWorker, first_done}}, kSucceeded, true},
      {"F9", all, {{kPs, two_running}, {kWorker, first_done}}, kRunning, true},
      {"F10", all, {{kPs, two_running}, {kWorker, four_done}}, kSucceeded, true},
      {"F11",
       all,
       {{kPs, two_running}, {kWorker, {kPodSucceeded, kPodRunning, kPodRunning, kPodFailed}}},
       kFailed,
       true},
      {"F12", wide, {{kChief, {kPodRunning}}, {kPs, two_running}, {kWorker, four_failed}}, kFailed},
      {"F13", wide, {{kChief, {kPodRunning}}, {kPs, two_running}, {kWorker, four_done}}, kRunning},
      {"F14",
       wide,
       {{kChief, {kPodRunning}}, {kPs, {kPodRunning, kPodFailed}}, {kWorker, four_done}},
       kFailed},
      {"F15", wide, {{kChief, {kPodFailed}}, {kPs, two_running}, {kWorker, four_done}}, kFailed},
      {"F16",
       wide,
       {{kChief, {kPodSucceeded}}, {kPs, two_running}, {kWorker, four_failed}},
       kSucceeded},
      {"I1",
       wide,
       {{kChief, {kPodSucceeded}}, {kPs, two_running}, {kWorker, first_done}},
       kSucceeded},
      {"I2", no_chief, {{kPs, two_running}, {kWorker, first_done}}, kSucceeded, true},
      {"I6", MakeJob("j").Workers(4), {{kWorker, four_done}}, kSucceeded, true},
  };
}

TEST_P(BothModes, JudgesTheJobByItsReplicas) {
  for (const StatusCase& c : StatusCases()) {
    World world(c.job, options());
    for (const auto& [type, phases] : c.pods) {
      for (size_t i = 0; i < phases.size(); ++i) {
        const bool exits_well = c.worker_zero_exits_well && type == kWorker && i == 0;
        world.Pod(type, static_cast<int>(i), phases[i],
                  exits_well ? std::optional<int>(0) : std::nullopt);
      }
    }
    world.Step();
    EXPECT_TRUE(world.Has(c.expected)) << c.id;
    EXPECT_FALSE(IsFinished(world.status()) && world.Has(kRunning)) << c.id;
  }
}

TEST(FirstVerdict, IsFinalByDefault) {  // decided divergence 6
  for (const bool compat : {false, true}) {
    World world(MakeJob("j").Chief().Workers(1), {.compat_v19 = compat});
    world.Pod(kChief, 0, kPodSucceeded, 0);
    world.Pod(kWorker, 0, kPodFailed, 1);
    world.Step();
    EXPECT_TRUE(world.Has(kSucceeded));
    EXPECT_EQ(world.Has(kFailed), compat);
  }
}

TEST_P(BothModes, RestartsWhatFailedRetryably) {  // F17 G7 G8
  World world(MakeJob("j").Chief(kRestartExitCode).Workers(2, kRestartExitCode), options());
  world.Pod(kChief, 0, kPodFailed, 130);
  world.Pod(kWorker, 0, kPodFailed, 130);
  world.Pod(kWorker, 1, kPodFailed, 130);
  world.Step();
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Restarting"));
  EXPECT_EQ(MessageOf(world.status(), kRestarting),
            "job j is restarting because Chief replica(s) failed.");
  world.Settle();
  ASSERT_EQ(world.observed.pods.size(), 3u);
  for (const PodView& pod : world.observed.pods) EXPECT_EQ(pod.phase, kPodPending);
  EXPECT_FALSE(IsFinished(world.status()));
}

TEST_P(BothModes, FailsOnAPermanentExitCode) {  // G6 G9
  World world(MakeJob("j").Ps(1).Workers(2, kRestartExitCode), options());
  world.Pod(kPs, 0);
  world.Pod(kWorker, 0);
  world.Pod(kWorker, 1, kPodFailed, 1);
  const Plan plan = world.Step();
  EXPECT_EQ(MessageOf(world.status(), kFailed),
            "job \"j\" is failing because \"Worker\" replica(s) failed.");
  EXPECT_THAT(plan.actions, IsEmpty());
}

TEST_P(BothModes, WalksThroughTheConditions) {  // F18
  World world(MakeJob("j").Workers(1, kRestartOnFailure), options());
  world.Step();
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created"));
  world.Pod(kWorker, 0, kPodRunning);
  world.Step();
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Running"));
  world.Pod(kWorker, 0, kPodFailed, 1);
  world.Step();
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Restarting"));
  world.Settle();
  world.Pod(kWorker, 0, kPodRunning);
  world.Step();
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Running"));
  world.observed.job.spec.replicas->at(kWorker).restart_policy = kRestartNever;
  world.Pod(kWorker, 0, kPodFailed, 1);
  world.Step();
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Running=False", "Failed"));
  EXPECT_EQ(MessageOf(world.status(), kFailed),
            "TFJob ns/j has failed because 1 Worker replica(s) failed.");
}

TEST(Finished, MeansSucceededOrFailedButNotSuspended) {  // F19
  const auto with = [](const char* type) {
    TfJobStatus status;
    status.conditions.push_back({.type = type, .status = kTrue});
    return status;
  };
  EXPECT_TRUE(IsFinished(with(kSucceeded)));
  EXPECT_TRUE(IsFinished(with(kFailed)));
  EXPECT_FALSE(IsFinished(with(kSuspended)));
  EXPECT_FALSE(IsFinished(with(kRunning)));
}

TEST(Counters, FollowThePhasesOfPods) {  // F20
  for (const bool compat : {false, true}) {
    World world(MakeJob("j").Chief().Workers(5), {.compat_v19 = compat});
    world.Pod(kChief, 0);
    world.Pod(kWorker, 0, kPodSucceeded, 0);
    world.Pod(kWorker, 1, kPodRunning);
    world.Pod(kWorker, 2, kPodFailed, 1);
    world.Pod(kWorker, 3, kPodPending);
    world.Pod(kWorker, 4, kPodRunning).deletion_time = world.observed.now;
    world.Step();
    const ReplicaStatus& status = world.status().replica_statuses.at(kWorker);
    EXPECT_EQ(status.active, 1);
    EXPECT_EQ(status.succeeded, 1);
    EXPECT_EQ(status.failed, compat ? 2 : 1);  // v1.9 counts the one being deleted
    EXPECT_EQ(status.selector, compat ? ""
                                      : "training.kubeflow.org/job-name=j,"
                                        "training.kubeflow.org/operator-name=tfjob-controller,"
                                        "training.kubeflow.org/replica-type=worker");
  }
}

TEST(Terminating, IsNotFailedByDefault) {  // decided divergence 1
  for (const bool compat : {false, true}) {
    World world(MakeJob("j").Workers(2), {.compat_v19 = compat});
    world.Pod(kWorker, 0);
    world.Pod(kWorker, 1).deletion_time = world.observed.now;
    EXPECT_THAT(world.Step().actions, IsEmpty());
    EXPECT_EQ(world.Has(kFailed), compat);
  }
}

TEST(Terminating, IsReplacedOnceGone) {
  World world(MakeJob("j").Workers(2));
  world.Pod(kWorker, 0);
  world.Pod(kWorker, 1, kPodFailed, 143).deletion_time = world.observed.now;
  EXPECT_THAT(world.Step().actions, IsEmpty());
  world.RemovePod(kWorker, 1);
  EXPECT_THAT(NamesOf<CreatePod>(world.Step()), ElementsAre("j-worker-1"));
}

TEST(SucceededIndex, IsNeverRunAgainByDefault) {  // decided divergence 2
  for (const bool compat : {false, true}) {
    World world(MakeJob("j").Chief().Workers(2), {.compat_v19 = compat});
    world.Pod(kChief, 0);
    world.Pod(kWorker, 0);
    world.Pod(kWorker, 1, kPodSucceeded, 0);
    world.Settle();
    world.RemovePod(kWorker, 1);
    EXPECT_EQ(NamesOf<CreatePod>(world.Step()).size(), compat ? 1u : 0u);
    EXPECT_EQ(world.status().replica_statuses.at(kWorker).succeeded, compat ? 0 : 1);
  }
}

TEST(SucceededIndex, CountsTowardsSuccessAfterItsPodIsGone) {
  World world(MakeJob("j").Workers(2).AllWorkers());
  world.Pod(kWorker, 0, kPodSucceeded, 0);
  world.Pod(kWorker, 1);
  world.Settle();
  world.RemovePod(kWorker, 0);
  world.Pod(kWorker, 1, kPodSucceeded, 0);
  world.Step();
  EXPECT_TRUE(world.Has(kSucceeded));
}

TEST(Missing, IsMadeAgainWhateverThePolicy) {
  World world(MakeJob("j").Workers(2, kRestartNever));
  world.Pod(kWorker, 0);
  world.Pod(kWorker, 1);
  world.Settle();
  world.RemovePod(kWorker, 1);
  EXPECT_THAT(NamesOf<CreatePod>(world.Step()), ElementsAre("j-worker-1"));
}

TEST_P(BothModes, CreatesNothingWhileSuspended) {  // J1
  JobBuilder builder = MakeJob("j").Workers(2);
  builder.job.spec.run_policy.suspend = true;
  World world(builder, options());
  world.Settle();
  EXPECT_THAT(world.observed.pods, IsEmpty());
  EXPECT_THAT(world.observed.services, IsEmpty());
  EXPECT_EQ(world.status().start_time, std::nullopt);
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Suspended"));
  EXPECT_EQ(MessageOf(world.status(), kSuspended), "TFJob j is suspended.");
}

TEST_P(BothModes, SuspendsAndResumes) {  // J2 J3 H10
  World world(MakeJob("j").Workers(2).Clean(kCleanNone), options());
  world.Pods(kWorker, 2, kPodRunning).Settle();
  const std::optional<absl::Time> started = world.status().start_time;
  world.observed.now += absl::Seconds(10);
  world.observed.job.spec.run_policy.suspend = true;
  world.Settle();
  EXPECT_THAT(world.observed.pods, IsEmpty());
  EXPECT_THAT(world.observed.services, IsEmpty());
  EXPECT_EQ(world.status().replica_statuses.at(kWorker).active, 0);
  EXPECT_EQ(world.status().start_time, started);
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Running=False", "Suspended"));
  EXPECT_EQ(MessageOf(world.status(), kRunning), "TFJob j is suspended.");
  world.observed.now += absl::Seconds(10);
  world.observed.job.spec.run_policy.suspend = false;
  world.Settle();
  world.Pods(kWorker, 2, kPodRunning).Settle();
  EXPECT_EQ(world.observed.pods.size(), 2u);
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Suspended=False", "Running"));
  EXPECT_GT(world.status().start_time, started);
}

TEST_P(BothModes, LeavesJobsOfOtherManagersAlone) {  // J4 J5
  for (const char* manager : {kManagedByMultiKueue, "", "other"}) {
    JobBuilder builder = MakeJob("j").Workers(1);
    builder.job.spec.run_policy.managed_by = manager;
    EXPECT_EQ(World(builder, options()).Look(), Plan{}) << manager;
  }
  JobBuilder ours = MakeJob("j").Workers(1);
  ours.job.spec.run_policy.managed_by = kManagedByUs;
  EXPECT_THAT(World(ours, options()).Look().actions, Not(IsEmpty()));
}

TEST_P(BothModes, LeavesAJobThatIsBeingDeletedAlone) {
  JobBuilder builder = MakeJob("j").Workers(1);
  builder.job.metadata.deletion_time = absl::UnixEpoch();
  EXPECT_EQ(World(builder, options()).Look(), Plan{});
}

TEST(BadSpec, FailsTheJobWithEveryProblem) {  // A8 A9
  World world(MakeJob("j").Workers(-1, "Sometimes"));
  const Plan plan = world.Step();
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Failed"));
  EXPECT_THAT(MessageOf(world.status(), kFailed), HasSubstr("\"Sometimes\""));
  EXPECT_THAT(MessageOf(world.status(), kFailed), HasSubstr("-1: must be 0 or more"));
  EXPECT_THAT(plan.actions, IsEmpty());
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_EQ(plan.events[0].reason, "TFJobFailedValidation");
}

TEST(BadSpec, FailsAJobWithoutReplicasInBothModes) {
  for (const bool compat : {false, true}) {
    JobBuilder builder = MakeJob("j");
    builder.job.spec.replicas.reset();
    World world(builder, {.compat_v19 = compat});
    world.Settle();
    EXPECT_TRUE(world.Has(kFailed));
  }
}

TEST_P(BothModes, PlansNothingMoreOnceSettled) {
  World world(MakeJob("j").Chief().Ps(2).Workers(3), options());
  world.Settle();
  for (PodView& pod : world.observed.pods) pod.phase = kPodRunning;
  world.Settle();
  const Plan plan = world.Look();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_THAT(plan.events, IsEmpty());
  EXPECT_EQ(plan.status, world.status());
}

TEST(Events, TellOfEachExitOnce) {
  World world(MakeJob("j").Workers(1, kRestartOnFailure));
  world.Settle();
  world.Pod(kWorker, 0, kPodFailed, 3);
  std::vector<std::string> messages;
  for (int i = 0; i < 5; ++i) {
    for (const Event& event : world.Step().events) messages.push_back(event.message);
  }
  EXPECT_THAT(messages, ElementsAre("Pod: ns.j-worker-0 exited with code 3",
                                    "job j is restarting because Worker replica(s) failed."));
}

TEST(Blocked, TellsOnceWhatStandsInTheWayAndGoesWithIt) {
  World world(MakeJob("j").Workers(2));
  world.observed.troubles.emplace().push_back(
      {kReasonFailedCreatePod, "Error creating: exceeded quota"});
  const Plan plan = world.Look();
  EXPECT_THAT(ConditionsOf(plan.status), ElementsAre("Created", "Blocked"));
  EXPECT_EQ(MessageOf(plan.status, kBlocked), "Error creating: exceeded quota");
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_EQ(plan.events[0].reason, kReasonFailedCreatePod);
  world.observed.job.status = plan.status;
  EXPECT_THAT(world.Look().events, IsEmpty());
  EXPECT_EQ(world.Look().status, plan.status);
  world.observed.troubles.reset();  // not tried yet: nothing is known
  EXPECT_EQ(world.Look().status, plan.status);
  world.observed.troubles.emplace();  // all went through
  EXPECT_THAT(ConditionsOf(world.Look().status), ElementsAre("Created"));
}

TEST(Blocked, SaysNothingOfAnEarlierJobsPodsThatAreBeingCollected) {
  World world(MakeJob("j").Workers(1));
  PodView& pod = world.Pod(kWorker, 0, kPodRunning);
  pod.owner_uid = "earlier";
  pod.owned_by_namesake = true;
  const Plan plan = world.Look();
  EXPECT_THAT(NamesOf<CreatePod>(plan), IsEmpty());
  EXPECT_THAT(plan.events, IsEmpty());
  EXPECT_THAT(ConditionsOf(plan.status), ElementsAre("Created"));
}

TEST(Orphans, ServicesOfOursAreAdoptedAndOthersLeftAlone) {  // K4
  World world(MakeJob("j").Workers(3));
  for (int i = 0; i < 3; ++i) world.Service(kWorker, i);
  world.observed.services[0].owner_uid = "";
  world.observed.services[1].owner_uid = "";
  world.observed.services[1].deletion_time = world.observed.now;
  world.observed.services[2].owner_uid = "somebody";
  EXPECT_THAT(NamesOf<AdoptService>(world.Look()), ElementsAre("j-worker-0"));
  world.observed.job.metadata.deletion_time = world.observed.now;
  EXPECT_THAT(world.Look().actions, IsEmpty());
}

TEST(SpecProblems, WrongTypesFailTheJobAndOldSpellingsAreSaidOnce) {
  World world(MakeJob("j").Workers(1));
  world.observed.parse_warnings = {{"spec.cleanPodPolicy", "belongs in spec.runPolicy", "Warning"}};
  const Plan plan = world.Step();
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_EQ(plan.events[0].reason, kReasonSpecWarning);
  EXPECT_THAT(world.Look().events, IsEmpty());
  world.observed.parse_errors = {{"spec.tfReplicaSpecs", "must be an object", "Invalid value"}};
  world.Step();
  EXPECT_THAT(MessageOf(world.status(), kFailed), HasSubstr("spec.tfReplicaSpecs"));
}

TEST(ExitCodes, AreToldOnceForAllPodsThatEndedAlike) {
  World world(MakeJob("j").Workers(3, kRestartExitCode));
  world.Pods(kWorker, 3, kPodFailed);
  for (PodView& pod : world.observed.pods) pod.exit_code = 137;
  const Plan plan = world.Step();
  ASSERT_EQ(plan.events.size(), 2u);
  EXPECT_EQ(plan.events[0].message,
            "Pod: ns.j-worker-0, ns.j-worker-1, ns.j-worker-2 exited with code 137");
  EXPECT_EQ(plan.events[1].reason, kReasonRestarting);
}

TEST(Status, TellsWhichSpecItIsAboutAndWhoIsReady) {
  World world(MakeJob("j").Workers(2));
  world.observed.job.metadata.generation = 3;
  world.Settle();
  EXPECT_EQ(world.status().observed_generation, 3);
  world.Pods(kWorker, 2, PodPhase::kRunning);
  world.Pod(kWorker, 1).ready = true;
  world.Settle();
  EXPECT_EQ(world.status().replica_statuses.at(kWorker).active, 2);
  EXPECT_EQ(world.status().replica_statuses.at(kWorker).ready, 1);
  world.Pod(kWorker, 0, PodPhase::kSucceeded, 0);
  world.observed.job.metadata.generation = 4;
  world.Settle();
  EXPECT_EQ(world.status().replica_statuses.at(kWorker).ready, 0);
  EXPECT_EQ(world.status().observed_generation, 4);
  world.observed.job.status.observed_generation = 0;
  EXPECT_EQ(world.Look().status.observed_generation, 0) << "it ended under an operator of before";
}

}  // namespace
}  // namespace tfjob
