// Whole lives of jobs with a service for all pods, or a claim for each, against the fake API
// server: what they cost, and what becomes of what is there already.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "operator/life_harness.h"
#include "operator/pod_view.h"

namespace tfjob {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kFirst[] = "scratch-j-worker-0";

// Calls of a job of 1 ps and 8 workers, from its creation to the end of its clean-up.
int CallsOf(const Json& spec) {
  Life life;
  life.Submit("j", {{"PS", 1}, {"Worker", 8}}, spec);
  life.Settle();
  life.SetAll("Running");
  life.Settle();
  life.SetPod("j-worker-0", "Succeeded", 0);
  life.Settle();
  EXPECT_THAT(life.Conditions("j"), Contains("Succeeded"));
  return life.CallsMade();
}

TEST(SubdomainLife, CostsOneServiceInPlaceOfOneForEachReplica) {
  const int with = CallsOf({{"network", {{"subdomain", "net"}}}});
  const int without = CallsOf(Json::object());
  RecordProperty("with", with);
  RecordProperty("without", without);
  EXPECT_LE(with, without - 8) << "of " << without;
}

TEST(SubdomainLife, ItsServiceIsMadeFirstAndGoesAtTheEnd) {
  Life life;
  life.Submit("j", {{"Worker", 2}}, {{"network", {{"subdomain", "net"}}}});
  life.Settle();
  EXPECT_THAT(life.Names(kube::kServices), ElementsAre("net"));
  life.SetAll("Running");
  life.StartOperator();
  life.Settle();
  EXPECT_EQ(life.server().Count("create", "services"), 1);
  life.SetAll("Succeeded");
  life.Settle();
  EXPECT_THAT(life.Names(kube::kServices), IsEmpty());
}

TEST(SubdomainLife, AForeignServiceOfItsNameIsLeftAloneAndTold) {
  Life life;
  life.server().Put(kube::kServices, {{"metadata", {{"name", "net"}, {"namespace", "ns"}}}});
  life.Submit("j", {{"Worker", 1}}, {{"network", {{"subdomain", "net"}}}});
  life.Settle(absl::ZeroDuration());
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created", "Blocked"));
  EXPECT_THAT(life.Events(), Contains(HasSubstr("Service net belongs to another owner")));
}

// One worker or more, each with a claim.
void SubmitWithClaims(Life& life, int workers = 1, const Json& retention = Json::object()) {
  life.Submit("j", {{"Worker", workers}});
  Json job = life.Job("j");
  Json& type = job["spec"]["tfReplicaSpecs"]["Worker"];
  type["volumeClaimTemplates"] =
      Json::array({{{"metadata", {{"name", "scratch"}}}, {"spec", Json::object()}}});
  type["persistentVolumeClaimRetentionPolicy"] = retention;
  life.server().Put(kube::kTfJobs, job);
}

TEST(ClaimLife, AReplacementReusesTheClaimOfItsReplica) {
  Life life;
  SubmitWithClaims(life);
  life.Settle();
  EXPECT_THAT(life.Names(kube::kClaims), ElementsAre(kFirst));
  EXPECT_THAT(life.Events(), Contains(HasSubstr("Created claim: scratch-j-worker-0")));
  const std::string uid = UidOf(*life.server().Find(kube::kClaims, "ns", kFirst));
  life.SetPod("j-worker-0", "Failed", 137);
  life.Settle();
  EXPECT_EQ(life.server().Count("create", "pods"), 2);
  EXPECT_EQ(UidOf(*life.server().Find(kube::kClaims, "ns", kFirst)), uid);
  EXPECT_THAT(life.Events(), Not(Contains(HasSubstr(kReasonExistingClaim))));
}

TEST(ClaimLife, AReplacementDoesNotAskForItAgainWhereAQuotaWouldCountThat) {
  Life life;
  SubmitWithClaims(life);
  life.Settle();
  life.RefuseCreations("persistentvolumeclaims",
                       {.code = 403, .reason = "Forbidden", .message = "exceeded quota: q"});
  life.SetPod("j-worker-0", "Failed", 137);
  life.Settle();
  EXPECT_EQ(life.server().Count("create", "pods"), 2);
}

TEST(ClaimLife, OneThatIsThereAlreadyIsUsedAndTold) {
  Life life;
  life.server().Put(kube::kClaims, {{"metadata", {{"name", kFirst}, {"namespace", "ns"}}}});
  SubmitWithClaims(life);
  life.Settle();
  EXPECT_THAT(life.Names(kube::kPods), ElementsAre("j-worker-0"));
  EXPECT_THAT(life.Events(),
              Contains("ExistingClaim: Uses what was there already: claim " + std::string(kFirst)));
}

TEST(ClaimLife, OneThatIsAboutToGoIsWaitedFor) {
  Life life;
  life.server().Put(
      kube::kClaims,
      {{"metadata",
        {{"name", kFirst},
         {"namespace", "ns"},
         {"labels", {{kLabelJobName, "j"}}},
         {"ownerReferences",
          Json::array(
              {{{"kind", kKind}, {"name", "j"}, {"uid", "before"}, {"controller", true}}})}}}});
  SubmitWithClaims(life);
  life.Sync();
  life.Pass();
  EXPECT_THAT(life.Names(kube::kPods), IsEmpty());
  EXPECT_EQ(life.server().Count("create", "pods"), 0);
}

TEST(ClaimLife, ScalingDownDeletesWhereItsPolicySaysSo) {
  for (const std::string policy : {kRetain, kDelete}) {
    Life life;
    SubmitWithClaims(life, 2, {{"whenScaled", policy}});
    life.Settle();
    life.SetAll("Running");
    life.Settle();
    Json job = life.Job("j");
    job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 1;
    life.server().Put(kube::kTfJobs, job);
    life.Settle();
    EXPECT_THAT(life.Names(kube::kPods), ElementsAre("j-worker-0"));
    EXPECT_EQ(life.Names(kube::kClaims).size(), policy == kRetain ? 2u : 1u) << policy;
  }
}

TEST(ClaimLife, ScalingDownSparesAForeignClaim) {
  Life life;
  life.server().Put(kube::kClaims,
                    {{"metadata", {{"name", "scratch-j-worker-1"}, {"namespace", "ns"}}}});
  SubmitWithClaims(life, 2, {{"whenScaled", kDelete}});
  life.Settle();
  Json job = life.Job("j");
  job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 1;
  life.server().Put(kube::kTfJobs, job);
  life.Settle();
  EXPECT_THAT(life.Names(kube::kClaims), ElementsAre(kFirst, "scratch-j-worker-1"));
}

TEST(ClaimLife, OneThatIsRefusedBlocksWithAdvice) {
  Life life;
  life.RefuseCreations("persistentvolumeclaims",
                       {.code = 403, .reason = "Forbidden", .message = "exceeded quota: q"});
  SubmitWithClaims(life);
  life.Settle(absl::ZeroDuration());
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created", "Blocked"));
  EXPECT_THAT(life.Events(), Contains(HasSubstr("raise the quota")));
  EXPECT_THAT(life.Names(kube::kPods), IsEmpty());
}

}  // namespace
}  // namespace tfjob
