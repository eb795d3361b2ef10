// Progress as a fact of a plan, and jobs that make none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/reconcile/builders.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kStall = absl::Seconds(300);

// A job that runs and has told step 500 of 1000 just now.
World Running(std::optional<int> stall_seconds = 300) {
  World world(MakeJob("j").Workers(1));
  world.observed.job.spec.progress = {.port = 1, .stall_seconds = stall_seconds};
  world.Settle();
  world.Pods(kWorker, 1, PodPhase::kRunning);
  world.observed.progress = {.global_step = 500, .last_step = 1000};
  world.Settle();
  return world;
}

TEST(Progress, IsTakenOverWithTheTimeAtWhichItWasNew) {
  World world = Running();
  const absl::Time first = world.observed.now;
  EXPECT_EQ(world.status().progress,
            (ProgressStatus{.read = {.global_step = 500, .last_step = 1000},
                            .last_update_time = first,
                            .last_step_time = first}));
  world.observed.now += absl::Seconds(10);
  world.Step();
  EXPECT_EQ(world.status().progress->last_update_time, first);
  world.observed.progress->loss = 0.5;
  world.Step();
  EXPECT_EQ(world.status().progress->last_update_time, world.observed.now);
  EXPECT_EQ(world.status().progress->last_step_time, first);
  world.observed.progress.reset();
  const TfJobStatus before = world.status();
  EXPECT_THAT(world.Step().actions, IsEmpty());
  EXPECT_EQ(world.status(), before);
}

TEST(Stall, IsToldOnceAfterItsTime) {
  World world = Running();
  EXPECT_EQ(world.Look().requeue_after, kStall);
  world.observed.now += kStall - absl::Seconds(1);
  EXPECT_EQ(world.Look().requeue_after, absl::Seconds(1));
  EXPECT_THAT(ConditionsOf(world.Look().status), ElementsAre("Created", "Running"));
  world.observed.now += absl::Seconds(1);
  const Plan plan = world.Step();
  EXPECT_THAT(plan.actions, IsEmpty());
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_EQ(plan.events[0].type, "Warning");
  EXPECT_EQ(plan.events[0].reason, kReasonStalled);
  EXPECT_THAT(plan.events[0].message, HasSubstr("for 300 s (500/1000 50%)"));
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Running", "Stalled"));
  world.observed.now += absl::Hours(1);
  EXPECT_THAT(world.Look().events, IsEmpty());
  EXPECT_EQ(world.Look().status, world.status());
  EXPECT_EQ(world.Look().requeue_after, std::nullopt);
}

TEST(Stall, EndsWithTheNextStep) {
  World world = Running();
  world.observed.now += kStall;
  world.Step();
  world.observed.progress->loss = 0.5;  // no step
  world.Step();
  EXPECT_TRUE(world.Has(kStalled));
  world.observed.progress->global_step = 501;
  EXPECT_THAT(world.Step().events, IsEmpty());
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Running"));
}

TEST(Stall, EndsWithTheJob) {
  World world = Running();
  world.observed.now += kStall;
  world.Step();
  world.Pod(kWorker, 0, PodPhase::kSucceeded, 0);
  world.Settle();
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Running=False", "Succeeded"));
}

TEST(Stall, BeginsAnewWhenTheJobRunsAgain) {
  World world = Running();
  world.observed.now += kStall;
  world.Step();
  world.observed.job.spec.run_policy.suspend = true;
  world.observed.progress.reset();
  world.Settle();
  EXPECT_FALSE(world.Has(kStalled));
  world.observed.now += absl::Hours(1);
  world.observed.job.spec.run_policy.suspend = false;
  world.Settle();
  world.Pods(kWorker, 1, PodPhase::kRunning);
  world.Settle();
  EXPECT_TRUE(world.Has(kRunning));
  EXPECT_FALSE(world.Has(kStalled));
  EXPECT_EQ(world.Look().requeue_after, kStall);
}

TEST(Stall, IsNoneAtTheLastStepNorWhereNobodyAskedForIt) {
  World done = Running();
  done.observed.progress->global_step = 1000;
  done.Step();
  done.observed.now += absl::Hours(1);
  EXPECT_EQ(done.Look().status, done.status());
  EXPECT_EQ(done.Look().requeue_after, std::nullopt);
  World unasked = Running(std::nullopt);
  unasked.observed.now += absl::Hours(1);
  EXPECT_EQ(unasked.Look().status, unasked.status());
  EXPECT_EQ(unasked.Look().requeue_after, std::nullopt);
}

TEST(Stall, RestartsTheJobAsAWholeWhereAskedTo) {
  World world = Running();
  world.observed.job.spec.progress->stall_action = kRestartJob;
  world.observed.job.spec.run_policy.backoff_limit = 1;
  EXPECT_EQ(world.Look().requeue_after, kStall);
  world.observed.now += kStall;
  const Plan plan = world.Step();
  EXPECT_THAT(plan.actions, IsEmpty()) << "on record before it is done";
  ASSERT_EQ(plan.events.size(), 2u);
  EXPECT_EQ(plan.events[0].reason, kReasonStalled);
  EXPECT_THAT(MessageOf(world.status(), kRestarting),
              HasSubstr("as a whole because pod j-worker-0 made no step for 300 s: stallAction"));
  EXPECT_EQ(world.status().replica_statuses.at(kWorker).restarts, 1);
  EXPECT_THAT(NamesOf<DeletePod>(world.Step()), ElementsAre("j-worker-0"));
  world.Settle();
  world.Pods(kWorker, 1, PodPhase::kRunning);
  world.Settle();
  EXPECT_FALSE(world.Has(kStalled));
  EXPECT_EQ(world.Look().requeue_after, kStall) << "it has its time anew";
  world.observed.now += kStall;
  world.Step();
  EXPECT_THAT(MessageOf(world.status(), kFailed), HasSubstr("backoff limit"));
}

TEST(Stall, FailsTheJobWhereAskedTo) {
  World world = Running();
  world.observed.job.spec.progress->stall_action = kFailJob;
  world.observed.now += kStall;
  world.Step();
  EXPECT_EQ(MessageOf(world.status(), kFailed),
            "TFJob ns/j has failed because pod j-worker-0 made no step for 300 s: stallAction of "
            "spec.progress");
  EXPECT_FALSE(world.Has(kStalled));
}

}  // namespace
}  // namespace tfjob
