// What one type of replica may have for itself: bounds of its number, cleaning, a place in the
// cluster spec.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/reconcile/builders.h"
#include "operator/reconcile/cluster.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

ReplicaSpec& SpecOf(World& world, const std::string& type) {
  return world.observed.job.spec.replicas->at(type);
}

// Four workers, of which two are enough; all run.
World Elastic(const std::string& success_policy = "") {
  World world(MakeJob("j").Workers(4, kRestartNever));
  SpecOf(world, kWorker).min_replicas = 2;
  world.observed.job.spec.success_policy = success_policy;
  world.Pods(kWorker, 4, PodPhase::kRunning);
  world.Settle();
  return world;
}

TEST(ElasticWorkers, MayFailForGoodDownToTheirMinimum) {
  World world = Elastic();
  world.Pod(kWorker, 1, PodPhase::kFailed, 1);
  world.Pod(kWorker, 2, PodPhase::kFailed, 1);
  world.Settle();
  EXPECT_FALSE(world.Has(kFailed));
  EXPECT_EQ(world.status().replica_statuses.at(kWorker).failed, 2);
  world.Pod(kWorker, 3, PodPhase::kFailed, 1);
  world.Settle();
  EXPECT_THAT(MessageOf(world.status(), kFailed), HasSubstr("3 Worker replica(s) failed"));
}

TEST(ElasticWorkers, EndAsWorkersDo) {
  World world = Elastic();
  world.Pod(kWorker, 1, PodPhase::kFailed, 1);
  world.Pod(kWorker, 0, PodPhase::kSucceeded, 0);
  world.Settle();
  EXPECT_TRUE(world.Has(kSucceeded));
  World all = Elastic(kSuccessAllWorkers);
  all.Pod(kWorker, 1, PodPhase::kFailed, 1);
  for (const int index : {0, 2, 3}) all.Pod(kWorker, index, PodPhase::kSucceeded, 0);
  all.Settle();
  EXPECT_TRUE(all.Has(kFailed)) << "one of them never succeeds";
}

TEST(ElasticWorkers, AreAGangOfTheirMinimum) {
  World world(MakeJob("j").Ps(1).Workers(4), {.gang_scheduler = kVolcano});
  SpecOf(world, kWorker).min_replicas = 2;
  world.Step();
  EXPECT_EQ(world.observed.pod_groups.at(0).spec.min_member, 3);
  SpecOf(world, kWorker).replicas = 6;
  EXPECT_THAT(NamesOf<UpdatePodGroup>(world.Look()), IsEmpty());
}

TEST(ElasticWorkers, AreBoundedByWhatTheirSpecSays) {
  const auto errors_of = [](int replicas, std::optional<int> min, std::optional<int> max) {
    TfJob job = MakeJob("j").Workers(replicas).job;
    job.spec.replicas->at(kWorker).min_replicas = min;
    job.spec.replicas->at(kWorker).max_replicas = max;
    std::vector<std::string> paths;
    for (const FieldError& error : Validate(job)) paths.push_back(error.path);
    return paths;
  };
  constexpr char kPath[] = "spec.tfReplicaSpecs[Worker].";
  EXPECT_THAT(errors_of(2, 2, 2), IsEmpty());
  EXPECT_THAT(errors_of(1, 2, std::nullopt), ElementsAre(std::string(kPath) + "replicas"));
  EXPECT_THAT(errors_of(3, std::nullopt, 2), ElementsAre(std::string(kPath) + "replicas"));
  EXPECT_THAT(errors_of(3, 4, 2), ElementsAre(std::string(kPath) + "maxReplicas"));
  TfJob job = MakeJob("j").Ps(2).Workers(1).job;
  job.spec.replicas->at(kPs).min_replicas = 1;
  ASSERT_EQ(Validate(job).size(), 1u);
  EXPECT_EQ(Validate(job)[0].path, "spec.tfReplicaSpecs[PS].minReplicas");
}

// A job whose worker 0 has succeeded while all others run.
World Ended(const JobBuilder& builder, const PlanOptions& options = {}) {
  World world(builder, options);
  for (const auto& [type, replica] : *builder.job.spec.replicas) {
    world.Pods(type, replica.replicas.value_or(1), PodPhase::kRunning);
  }
  world.Pod(kWorker, 0, PodPhase::kSucceeded, 0);
  return world;
}

std::vector<std::string> PodsOf(const World& world) {
  std::vector<std::string> names;
  for (const PodView& pod : world.observed.pods) names.push_back(pod.name);
  return names;
}

std::vector<std::string> ServicesOf(const World& world) {
  std::vector<std::string> names;
  for (const ServiceView& service : world.observed.services) names.push_back(service.name);
  return names;
}

TEST(CleanByType, ReclaimsParameterServersWhereNothingIsSaid) {
  World world = Ended(MakeJob("j").Ps(1).Workers(2));
  world.Settle();
  EXPECT_THAT(PodsOf(world), UnorderedElementsAre("j-worker-0", "j-worker-1"));
  EXPECT_THAT(ServicesOf(world), ElementsAre("j-worker-1")) << "of the one that goes on";
  world.Pod(kWorker, 1, PodPhase::kSucceeded, 0);
  world.Settle();
  EXPECT_THAT(ServicesOf(world), IsEmpty());
  EXPECT_EQ(PodsOf(world).size(), 2u);
}

TEST(CleanByType, LeavesThemWhereToldTo) {
  World by_job = Ended(MakeJob("j").Ps(1).Workers(1).Clean(kCleanNone));
  by_job.Settle();
  EXPECT_THAT(PodsOf(by_job), UnorderedElementsAre("j-ps-0", "j-worker-0"));
  World by_type = Ended(MakeJob("j").Ps(1).Workers(1));
  SpecOf(by_type, kPs).clean_pod_policy = kCleanNone;
  by_type.Settle();
  EXPECT_THAT(PodsOf(by_type), UnorderedElementsAre("j-ps-0", "j-worker-0"));
  World old = Ended(MakeJob("j").Ps(1).Workers(1), {.compat_v19 = true});
  old.Settle();
  EXPECT_THAT(PodsOf(old), UnorderedElementsAre("j-ps-0", "j-worker-0"));
  EXPECT_EQ(ServicesOf(old).size(), 2u);
}

TEST(CleanUp, TakesAPodWhoseSidecarRunsForOneThatRuns) {
  for (const std::string policy : {kCleanNone, kCleanRunning, kCleanAll}) {
    World world(MakeJob("j").Workers(2).AllWorkers().Clean(policy));
    world.Pods(kWorker, 2, PodPhase::kSucceeded);
    world.observed.pods[0].sidecar_runs = true;
    world.Settle();
    EXPECT_TRUE(world.Has(kSucceeded));
    EXPECT_EQ(PodsOf(world).size(), policy == kCleanNone ? 2u : policy == kCleanAll ? 0u : 1u);
    EXPECT_EQ(ServicesOf(world).size(), policy == kCleanNone ? 1u : 0u);
  }
}

TEST(CleanByType, GoesBeforeTheJobsPolicy) {
  World world = Ended(MakeJob("j").Ps(1).Workers(3).Clean(kCleanRunning));
  SpecOf(world, kWorker).clean_pod_policy = kCleanNone;
  world.Settle();
  EXPECT_THAT(PodsOf(world), UnorderedElementsAre("j-worker-0", "j-worker-1", "j-worker-2"));
  World all = Ended(MakeJob("j").Ps(1).Workers(2).Clean(kCleanAll));
  SpecOf(all, kWorker).clean_pod_policy = kCleanRunning;
  const Plan end = all.Step();
  EXPECT_TRUE(HasCondition(end.status, kSucceeded));
  const Plan clean = all.Look();
  EXPECT_THAT(NamesOf<DeletePod>(clean), UnorderedElementsAre("j-ps-0", "j-worker-1"));
  EXPECT_FALSE(clean.deletes_all_pods);
}

TEST(CleanByType, ServicesGoByOneCallThoughPodsStay) {
  World world = Ended(MakeJob("j").Workers(1));
  for (ServiceView& service : world.observed.services) service.job_uid = kTestUid;
  for (PodView& pod : world.observed.pods) pod.job_uid = kTestUid;
  world.Step();
  const Plan clean = world.Look();
  EXPECT_TRUE(clean.deletes_all_services);
  EXPECT_FALSE(clean.deletes_all_pods);
}

std::string TfConfigOf(const JobBuilder& builder, const std::string& type,
                       const PlanOptions& options = {}) {
  TfJob job = builder.job;
  SetDefaults(job);
  return TfConfigFor(job, ClusterOf(job, options), {LowerReplicaType(type), 0}, options);
}

TEST(InClusterSpec, IsTheJobsOwnChoice) {
  JobBuilder job = MakeJob("j").Ps(1).Workers(1).Replicas(kEvaluator, 1).Replicas("Dispatcher", 1);
  EXPECT_THAT(TfConfigOf(job, kWorker), HasSubstr("j-evaluator-0"));
  EXPECT_THAT(TfConfigOf(job, kWorker, {.evaluator_in_cluster = false}),
              Not(HasSubstr("j-evaluator-0")));
  job.job.spec.replicas->at(kEvaluator).in_cluster_spec = true;
  EXPECT_THAT(TfConfigOf(job, kWorker, {.evaluator_in_cluster = false}),
              HasSubstr("j-evaluator-0"));
  job.job.spec.replicas->at(kEvaluator).in_cluster_spec = false;
  job.job.spec.replicas->at("Dispatcher").in_cluster_spec = false;
  EXPECT_THAT(TfConfigOf(job, kWorker), Not(HasSubstr("j-evaluator-0")));
  EXPECT_THAT(TfConfigOf(job, kWorker), Not(HasSubstr("j-dispatcher-0")));
  EXPECT_THAT(TfConfigOf(job, kEvaluator), HasSubstr(R"("task":{"type":"evaluator")"));
  job.job.spec.replicas->at(kWorker).in_cluster_spec = false;
  ASSERT_EQ(Validate(job.job).size(), 1u);
  EXPECT_EQ(Validate(job.job)[0].path, "spec.tfReplicaSpecs[Worker].inClusterSpec");
}

}  // namespace
}  // namespace tfjob
