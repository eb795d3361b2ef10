// volumeClaimTemplates: a claim for each replica, made before its pod, and what becomes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/reconcile/builders.h"
#include "operator/reconcile/children.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

World WithClaims(const std::string& when_deleted = "", const std::string& when_scaled = "") {
  World world(MakeJob("j").Ps(1).Workers(2, kRestartExitCode));
  ReplicaSpec& workers = world.observed.job.spec.replicas->at(kWorker);
  workers.claim_templates = Json::parse(R"([{"metadata": {"name": "scratch", "labels": {"a": "b"},
      "annotations": {"c": "d"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}])");
  workers.claims_when_deleted = when_deleted;
  workers.claims_when_scaled = when_scaled;
  return world;
}

TEST(Claims, AreMadeBeforeThePodThatMountsThem) {
  World world = WithClaims();
  const Plan plan = world.Step();
  EXPECT_THAT(NamesOf<CreateClaim>(plan), ElementsAre("scratch-j-worker-0", "scratch-j-worker-1"));
  for (const Action& action : plan.actions) {
    const auto* pod = std::get_if<CreatePod>(&action);
    if (pod == nullptr || pod->type != "worker") continue;
    EXPECT_EQ(pod->object["spec"]["volumes"],
              Json::array({{{"name", "scratch"},
                            {"persistentVolumeClaim", {{"claimName", "scratch-" + pod->name}}}}}));
  }
  EXPECT_THAT(NamesOf<CreateClaim>(world.Look()), IsEmpty());
}

TEST(Claims, CarryTheLabelsOfTheirReplica) {
  const TfJob job = WithClaims("").Defaulted();
  EXPECT_EQ(BuildClaims(job, kWorker, 1, {}),
            std::vector<Json>{Json::parse(R"({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
      "metadata": {"name": "scratch-j-worker-1", "namespace": "ns", "annotations": {"c": "d"},
        "labels": {"a": "b", "training.kubeflow.org/operator-name": "tfjob-controller",
          "training.kubeflow.org/job-name": "j", "training.kubeflow.org/job-uid": "job-uid",
          "training.kubeflow.org/replica-type": "worker",
          "training.kubeflow.org/replica-index": "1"}},
      "spec": {"accessModes": ["ReadWriteOnce"]}})")});
  EXPECT_THAT(BuildClaims(job, kPs, 0, {}), IsEmpty());
}

TEST(Claims, GoWithTheJobOnlyWhereItsPolicySaysSo) {
  const auto owners_of = [](const std::string& when_deleted) {
    return BuildClaims(WithClaims(when_deleted).Defaulted(), kWorker, 0, {})[0]["metadata"].value(
        "ownerReferences", Json());
  };
  EXPECT_EQ(owners_of(""), Json());
  EXPECT_EQ(owners_of(kRetain), Json());
  EXPECT_EQ(owners_of(kDelete)[0]["uid"], kTestUid);
}

TEST(Claims, AreAskedForAgainWithAReplacement) {
  World world = WithClaims();
  world.Settle();
  world.Pod(kWorker, 1, PodPhase::kFailed, 137);
  std::vector<std::string> made;
  for (int i = 0; i < 4; ++i) {
    for (const std::string& name : NamesOf<CreateClaim>(world.Step())) made.push_back(name);
  }
  EXPECT_THAT(made, ElementsAre("scratch-j-worker-1"));
}

TEST(Claims, OfScaledDownReplicasGoWhereTheirPolicySaysSo) {
  for (const std::string when_scaled : {kRetain, kDelete}) {
    World world = WithClaims("", when_scaled);
    world.Settle();
    world.observed.job.spec.replicas->at(kWorker).replicas = 1;
    const Plan plan = world.Step();
    EXPECT_THAT(NamesOf<DeletePod>(plan), ElementsAre("j-worker-1"));
    EXPECT_EQ(NamesOf<DeleteClaim>(plan).size(), when_scaled == kDelete ? 1u : 0u);
    EXPECT_EQ(world.claims.contains("scratch-j-worker-1"), when_scaled == kRetain);
    EXPECT_TRUE(world.claims.contains("scratch-j-worker-0"));
  }
}

TEST(Claims, StayWhenTheJobEndsOrIsSuspended) {
  World world = WithClaims(kDelete, kDelete);
  world.observed.job.spec.run_policy.clean_pod_policy = kCleanAll;
  world.Settle();
  world.observed.job.spec.run_policy.suspend = true;
  world.Settle();
  EXPECT_THAT(world.observed.pods, IsEmpty());
  world.observed.job.spec.run_policy.suspend = false;
  world.Settle();
  world.Pod(kWorker, 0, PodPhase::kSucceeded, 0);
  world.Settle();
  EXPECT_TRUE(world.Has(kSucceeded));
  EXPECT_THAT(world.claims, UnorderedElementsAre("scratch-j-worker-0", "scratch-j-worker-1"));
}

}  // namespace
}  // namespace tfjob
