// spec.startupPolicy: which pods are made while others are not ready yet.
#include "operator/reconcile/startup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/reconcile/builders.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

World InOrder(const JobBuilder& builder, const PlanOptions& options = {}) {
  World world(builder, options);
  world.observed.job.spec.startup_order = kInOrder;
  return world;
}

void MakeReady(World& world, const std::string& type, int index) {
  world.Pod(type, index).ready = true;
}

TEST(StartupPolicy, MakesEachTypeOnceThoseBeforeItAreReady) {
  World world = InOrder(MakeJob("j").Chief().Ps(2).Workers(1).Replicas(kEvaluator, 1));
  const Plan first = world.Step();
  EXPECT_EQ(NamesOf<CreateService>(first).size(), 5u) << "all names resolve from the start";
  EXPECT_THAT(NamesOf<CreatePod>(first), ElementsAre("j-ps-0", "j-ps-1"));
  EXPECT_THAT(first.waits_for, HasSubstr("j-ps-0, j-ps-1 to be ready"));
  MakeReady(world, kPs, 0);
  world.Pod(kPs, 1);
  EXPECT_THAT(NamesOf<CreatePod>(world.Look()), IsEmpty()) << "running is not ready";
  EXPECT_THAT(world.Look().waits_for, HasSubstr("j-ps-1 to be ready"));
  MakeReady(world, kPs, 1);
  EXPECT_THAT(NamesOf<CreatePod>(world.Step()), ElementsAre("j-chief-0"));
  MakeReady(world, kChief, 0);
  EXPECT_THAT(NamesOf<CreatePod>(world.Step()), ElementsAre("j-worker-0"));
  MakeReady(world, kWorker, 0);
  const Plan last = world.Step();
  EXPECT_THAT(NamesOf<CreatePod>(last), ElementsAre("j-evaluator-0"));
  EXPECT_EQ(world.Look().waits_for, "");
}

TEST(StartupPolicy, HoldsForReplacementsToo) {
  World world = InOrder(MakeJob("j").Ps(1, kRestartExitCode).Workers(2, kRestartExitCode));
  MakeReady(world, kPs, 0);
  MakeReady(world, kWorker, 0);
  world.RemovePod(kPs, 0);
  EXPECT_THAT(NamesOf<CreatePod>(world.Step()), ElementsAre("j-ps-0"));
  EXPECT_THAT(NamesOf<CreatePod>(world.Look()), IsEmpty()) << "j-worker-1 waits, j-worker-0 stays";
  MakeReady(world, kPs, 0);
  EXPECT_THAT(NamesOf<CreatePod>(world.Step()), ElementsAre("j-worker-1"));
}

TEST(StartupPolicy, WaitsForNobodyWhoIsOver) {
  World world = InOrder(MakeJob("j").Ps(1).Workers(2).Replicas(kEvaluator, 1).AllWorkers());
  MakeReady(world, kPs, 0);
  world.Pod(kWorker, 0, PodPhase::kSucceeded, 0);
  MakeReady(world, kWorker, 1);
  EXPECT_THAT(NamesOf<CreatePod>(world.Look()), ElementsAre("j-evaluator-0"));
}

TEST(StartupPolicy, AnyOrderGangsAndV19MakeAllAtOnce) {
  World any(MakeJob("j").Ps(1).Workers(1));
  EXPECT_EQ(NamesOf<CreatePod>(any.Look()).size(), 2u);
  World gang = InOrder(MakeJob("j").Ps(1).Workers(1), {.gang_scheduler = "coscheduler"});
  gang.Step();
  EXPECT_EQ(gang.observed.pods.size(), 2u);
  World old = InOrder(MakeJob("j").Ps(1).Workers(1), {.compat_v19 = true});
  EXPECT_EQ(NamesOf<CreatePod>(old.Look()).size(), 2u);
}

}  // namespace
}  // namespace tfjob
