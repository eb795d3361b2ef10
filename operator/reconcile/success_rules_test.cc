// spec.runPolicy.successPolicy: rules that say when a job has succeeded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/reconcile/builders.h"

namespace tfjob {
namespace {

using ::testing::HasSubstr;

// A job with this rule whose pods all run.
World Ruled(const JobBuilder& builder, SuccessRule rule, const PlanOptions& options = {}) {
  World world(builder, options);
  world.observed.job.spec.run_policy.success_rules = {std::move(rule)};
  for (const auto& [type, replica] : *builder.job.spec.replicas) {
    world.Pods(type, replica.replicas.value_or(1), PodPhase::kRunning);
  }
  world.Settle();
  return world;
}

void Succeed(World& world, const std::string& type, int index) {
  world.Pod(type, index, PodPhase::kSucceeded, 0);
  world.Settle();
}

TEST(SuccessRule, OfACountEndsTheJob) {
  World world = Ruled(MakeJob("j").Ps(1).Workers(4), {.types = {kWorker}, .count = 2});
  Succeed(world, kWorker, 0);
  EXPECT_FALSE(world.Has(kSucceeded)) << "worker 0 alone does not decide";
  Succeed(world, kWorker, 3);
  EXPECT_EQ(MessageOf(world.status(), kSucceeded),
            "TFJob ns/j successfully completed: rule 0 of spec.runPolicy.successPolicy holds.");
}

TEST(SuccessRule, OfIndexesAsksForAllOfThem) {
  World world = Ruled(MakeJob("j").Workers(4), {.types = {kWorker}, .indexes = {1, 2}});
  Succeed(world, kWorker, 0);
  Succeed(world, kWorker, 1);
  EXPECT_FALSE(world.Has(kSucceeded));
  Succeed(world, kWorker, 2);
  EXPECT_TRUE(world.Has(kSucceeded));
}

TEST(SuccessRule, HoldsForEachOfItsTypes) {
  World world = Ruled(MakeJob("j").Chief().Workers(2).Replicas(kEvaluator, 1),
                      {.types = {kChief, kEvaluator}, .count = 1});
  Succeed(world, kChief, 0);
  EXPECT_FALSE(world.Has(kSucceeded)) << "the chief alone does not decide";
  Succeed(world, kEvaluator, 0);
  EXPECT_TRUE(world.Has(kSucceeded));
}

TEST(SuccessRule, IsNotNeededOnceAllHaveSucceeded) {
  World world = Ruled(MakeJob("j").Ps(1).Workers(2), {.types = {kWorker}, .count = 5});
  Succeed(world, kWorker, 0);
  EXPECT_FALSE(world.Has(kSucceeded));
  Succeed(world, kWorker, 1);
  EXPECT_TRUE(world.Has(kSucceeded));
}

TEST(SuccessRule, GoesBeforeAFailureThatIsSeenWithIt) {
  World world = Ruled(MakeJob("j").Workers(2), {.types = {kWorker}, .count = 1});
  world.Pod(kWorker, 0, PodPhase::kFailed, 1);
  Succeed(world, kWorker, 1);
  EXPECT_TRUE(world.Has(kSucceeded));
}

TEST(SuccessRule, MayNameATypeOfTheJobsOwn) {
  const SuccessRule rule = {.types = {"Sampler"}, .count = 1};
  World world = Ruled(MakeJob("j").Workers(1).Replicas("Sampler", 2), rule);
  Succeed(world, "Sampler", 1);
  EXPECT_TRUE(world.Has(kSucceeded));
  World failed = Ruled(MakeJob("j").Workers(1).Replicas("Sampler", 1), rule);
  failed.Pod("Sampler", 0, PodPhase::kFailed, 1);
  failed.Settle();
  EXPECT_TRUE(failed.Has(kFailed));
}

TEST(SuccessRule, LeavesFailuresAsTheyAre) {
  World world = Ruled(MakeJob("j").Workers(2), {.types = {kWorker}, .count = 2});
  world.Pod(kWorker, 0, PodPhase::kFailed, 1);
  world.Settle();
  EXPECT_THAT(MessageOf(world.status(), kFailed), HasSubstr("1 Worker replica(s) failed"));
}

TEST(SuccessRule, FailsElasticWorkersOnceNobodyIsLeftToFulfilIt) {
  JobBuilder builder = MakeJob("j").Workers(3).Replicas(kEvaluator, 1);
  builder.job.spec.replicas->at(kWorker).min_replicas = 1;
  World world = Ruled(builder, {.types = {kWorker}, .count = 3});
  world.Pod(kWorker, 2, PodPhase::kFailed, 1);
  Succeed(world, kWorker, 0);
  Succeed(world, kWorker, 1);
  EXPECT_FALSE(IsFinished(world.status())) << "the evaluator goes on";
  Succeed(world, kEvaluator, 0);
  EXPECT_TRUE(world.Has(kFailed));
}

TEST(SuccessRule, IsNothingThatV19Knows) {
  World world =
      Ruled(MakeJob("j").Workers(2), {.types = {kWorker}, .count = 2}, {.compat_v19 = true});
  Succeed(world, kWorker, 0);
  EXPECT_TRUE(world.Has(kSucceeded));
}

}  // namespace
}  // namespace tfjob
