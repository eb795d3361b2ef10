// Whole lives of gangs against the fake API server: one PodGroup each, made before the pods and
// deleted once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "operator/life_harness.h"
#include "operator/pod_groups.h"
#include "operator/pod_view.h"

namespace tfjob {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const LifeOptions kVolcanoLife = {.gang_scheduler = "volcano"};
const LifeOptions kPluginLife = {.gang_scheduler = "coscheduler"};

Json MinAvailable(int count) {
  return {{"runPolicy", {{"schedulingPolicy", {{"minAvailable", count}}}}}};
}

Json PodGroup(Life& life) {
  return life.server().Find(life.pod_groups(), "ns", "j").value_or(Json());
}

TEST(GangLife, WaitsUntilItIsAdmittedAndCleansUpOnce) {  // K1
  Life life(kVolcanoLife);
  life.Submit("j", {{"Worker", 1}}, MinAvailable(10));
  life.Settle();
  EXPECT_EQ(PodGroup(life)["spec"]["minMember"], 10);
  life.SetPodGroup("j", "Pending");
  for (int i = 0; i < 3; ++i) {
    life.Settle();
    life.clock().Advance(absl::Hours(1));
  }
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created", "Queued"));
  EXPECT_THAT(life.Names(kube::kPods), IsEmpty());
  EXPECT_THAT(life.Names(kube::kServices), IsEmpty());
  EXPECT_FALSE(life.Job("j")["status"].contains("startTime"));
  EXPECT_THAT(life.controller().Debug().dump(), HasSubstr("its PodGroup ns/j (minMember 10)"));
  EXPECT_EQ(life.server().Count("status", "tfjobs"), 1);  // not rewritten while it waits

  Json job = life.Job("j");
  job["spec"].update(MinAvailable(1));
  job["spec"]["runPolicy"]["schedulingPolicy"]["minAvailable"] = 1;
  life.server().Put(kube::kTfJobs, job);
  life.Settle();
  EXPECT_EQ(PodGroup(life)["spec"]["minMember"], 1);
  life.SetPodGroup("j", "Inqueue");
  life.Settle();
  EXPECT_THAT(life.Names(kube::kPods), ElementsAre("j-worker-0"));
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created"));
  life.SetPod("j-worker-0", "Succeeded", 0);
  for (int i = 0; i < 3; ++i) life.Settle();
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created", "Succeeded"));
  EXPECT_THAT(life.Names(life.pod_groups()), IsEmpty());
  EXPECT_EQ(life.server().Count("create", "podgroups"), 1);
  EXPECT_EQ(life.server().Count("patch", "podgroups"), 1);
  EXPECT_EQ(life.server().Count("delete", "podgroups"), 1);
  EXPECT_EQ(life.server().Count("get", "podgroups"), 0);
  std::vector<std::string> told = life.Events();
  std::erase_if(told, [](const std::string& e) { return e.find("PodGroup") == std::string::npos; });
  EXPECT_THAT(told, testing::UnorderedElementsAre(HasSubstr("PodGroupPending: "),
                                                  "SuccessfulDeletePodGroup: Deleted PodGroup: j"));
}

TEST(GangLife, MakesThePodGroupBeforeThePods) {
  Life life(kPluginLife);
  life.Submit("j", {{"PS", 1}, {"Worker", 3}});
  life.Settle();
  std::vector<std::string> made;
  for (const kube::FakeCall& call : life.server().Calls()) {
    if (call.verb == "create" && call.plural != "events" && call.plural != "tfjobs") {
      made.push_back(call.plural);
    }
  }
  ASSERT_EQ(made.size(), 9u);
  EXPECT_EQ(made.front(), "podgroups");
  EXPECT_EQ(life.Names(kube::kPods).size(), 4u);
}

TEST(GangLife, MakesNoPodsWhereThePodGroupIsRefused) {
  for (const LifeOptions& options : {kVolcanoLife, kPluginLife}) {
    Life life(options);
    life.RefuseCreations("podgroups",
                         {.code = 422, .reason = "Invalid", .message = "queue gpu is not open"});
    life.Submit("j", {{"Worker", 2}});
    life.Settle(absl::ZeroDuration());
    EXPECT_THAT(life.Conditions("j"), Contains("Blocked"));
    EXPECT_THAT(life.Job("j")["status"]["conditions"].back()["message"].get<std::string>(),
                HasSubstr("(to do: correct runPolicy.schedulingPolicy"));
    EXPECT_THAT(life.Events(), Contains(HasSubstr("FailedCreatePodGroup: ")));
    EXPECT_THAT(life.Names(kube::kPods), IsEmpty());
    const int tries = life.server().Count("create", "podgroups");
    for (int i = 0; i < 20; ++i) life.Pass();
    EXPECT_EQ(life.server().Count("create", "podgroups"), tries);
    life.server().SetFaults({});
    life.clock().Advance(absl::Minutes(3));
    life.Settle();
    life.SetPodGroup("j", "Inqueue");
    life.Settle();
    EXPECT_EQ(life.Names(kube::kPods).size(), 2u);
    EXPECT_THAT(life.Conditions("j"), ElementsAre("Created"));
  }
}

TEST(GangLife, TakesOverThePodGroupOfV19) {
  Life life(kVolcanoLife);
  life.Submit("j", {{"Worker", 1}});
  const std::string uid = life.Job("j")["metadata"]["uid"];
  const Json owner = {{"apiVersion", kApiVersion},
                      {"kind", kKind},
                      {"name", "j"},
                      {"uid", uid},
                      {"controller", true}};
  for (const Json& owners : {Json::array({owner}), Json::array()}) {
    life.server().Put(life.pod_groups(), {{"metadata",
                                           {{"name", "j"},
                                            {"namespace", "ns"},
                                            {"ownerReferences", owners},
                                            {"annotations", {{"theirs", "stays"}}}}},
                                          {"spec", {{"minMember", 7}, {"queue", "theirs"}}},
                                          {"status", {{"phase", "Running"}}}});
    life.StartOperator();
    life.Settle();
    const Json group = PodGroup(life);
    EXPECT_EQ(group["metadata"]["labels"][kLabelJobName], "j");
    EXPECT_EQ(group["metadata"]["ownerReferences"].size(), 1u);
    EXPECT_EQ(group["metadata"]["ownerReferences"][0]["uid"], uid);
    EXPECT_EQ(group["metadata"]["annotations"]["theirs"], "stays");
    EXPECT_EQ(group["spec"], Json({{"minMember", 1}, {"queue", "theirs"}}));
    EXPECT_THAT(life.Names(kube::kPods), ElementsAre("j-worker-0"));
    EXPECT_THAT(life.Conditions("j"), ElementsAre("Created"));
    life.server().Remove(life.pod_groups(), "ns", "j");
  }
}

TEST(GangLife, AForeignPodGroupBlocksUntilItGoes) {
  for (const LifeOptions& options : {kVolcanoLife, kPluginLife}) {
    Life life(options);
    life.server().Put(life.pod_groups(),
                      {{"metadata",
                        {{"name", "j"},
                         {"namespace", "ns"},
                         {"ownerReferences", Json::array({{{"uid", "x"}, {"controller", true}}})}}},
                       {"status", {{"phase", "Running"}}}});
    life.Submit("j", {{"Worker", 1}});
    life.Settle(absl::ZeroDuration());
    EXPECT_THAT(life.Conditions("j"), Contains("Blocked"));
    EXPECT_THAT(life.Names(kube::kPods), IsEmpty());
    EXPECT_THAT(life.Events(), Contains("PodGroupNameTaken: PodGroup j belongs to another owner; "
                                        "delete or rename it"));
    life.server().Remove(life.pod_groups(), "ns", "j");
    life.clock().Advance(absl::Minutes(3));
    life.Settle();
    life.SetPodGroup("j", "Inqueue");
    life.Settle();
    EXPECT_THAT(life.Names(kube::kPods), ElementsAre("j-worker-0"));
    EXPECT_THAT(life.Conditions("j"), Not(Contains("Blocked")));
  }
}

TEST(GangLife, ADeletedPodGroupIsMadeAgainThoughAnUpdateWasOnItsWay) {
  Life life(kPluginLife);
  life.Submit("j", {{"Worker", 1}});
  life.Settle();
  life.server().Remove(life.pod_groups(), "ns", "j");
  Json job = life.Job("j");
  job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 2;
  life.server().Put(kube::kTfJobs, job);
  const auto sink = life.cache().MakeJobSink("");
  sink->OnObject(job = life.Job("j"));  // the watch of PodGroups lags
  EXPECT_EQ(life.Pass().at("ns/j").kind, runtime::Outcome::Kind::kRetry);
  EXPECT_EQ(life.Names(kube::kPods).size(), 1u);
  life.Settle();
  EXPECT_EQ(PodGroup(life)["spec"]["minMember"], 2);
  EXPECT_EQ(life.Names(kube::kPods).size(), 2u);
}

TEST(GangLife, AJobMadeAnewWaitsForThePodGroupOfTheOldOne) {
  Life life({.graceful_pods = true, .gang_scheduler = "coscheduler"});
  life.Submit("j", {{"Worker", 1}});
  life.Settle();
  life.server().Remove(kube::kTfJobs, "ns", "j");
  life.Submit("j", {{"Worker", 1}});
  life.Settle(absl::ZeroDuration());
  EXPECT_THAT(life.Conditions("j"), Not(Contains("Blocked")));
  life.server().CollectGarbage();
  life.server().FinishDeletions();
  life.Settle();
  EXPECT_EQ(PodGroupViewOf(PodGroup(life)).owner_uid, UidOf(life.Job("j")));
  EXPECT_THAT(life.Names(kube::kPods), ElementsAre("j-worker-0"));
}

TEST(GangLife, AsV19TellsOfItsEndTwice) {
  Life life({.compat_v19 = true, .gang_scheduler = "volcano"});
  life.Submit("j", {{"Worker", 1}});
  life.Settle();
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created"));
  life.SetPodGroup("j", "Inqueue");
  life.Settle();
  life.SetPod("j-worker-0", "Succeeded", 0);
  for (int i = 0; i < 3; ++i) life.Settle();
  EXPECT_THAT(life.Names(life.pod_groups()), IsEmpty());
  EXPECT_EQ(life.server().Count("delete", "podgroups"), 1);
  EXPECT_THAT(life.Events(),
              testing::IsSupersetOf({"JobTerminated: Job has been terminated. Deleting PodGroup",
                                     "SuccessfulDeletePodGroup: Deleted PodGroup: j"}));
}

TEST(GangLife, TroubleWithTheServerEndsInTheSameState) {
  for (const int code : {409, 500, 503, 429}) {
    Life life(kVolcanoLife);
    life.FailEveryThirdCall(code);
    life.Submit("j", {{"PS", 1}, {"Worker", 2}});
    life.Settle();
    life.SetPodGroup("j", "Inqueue");
    life.Settle();
    life.SetAll("Running");
    life.Settle();
    life.SetPod("j-worker-0", "Succeeded", 0);
    life.Settle();
    EXPECT_THAT(life.Conditions("j"), ElementsAre("Created", "Running=False", "Succeeded")) << code;
    EXPECT_THAT(life.Names(life.pod_groups()), IsEmpty()) << code;
    EXPECT_EQ(life.Metric("created"), 1) << code;
  }
}

TEST(PodGroupViewOf, ReadsWhatDecisionsNeed) {
  const PodGroupView view = PodGroupViewOf(
      {{"metadata",
        {{"name", "j"},
         {"uid", "u"},
         {"ownerReferences", Json::array({{{"uid", "job"}, {"controller", true}}})}}},
       {"spec",
        {{"minMember", 3},
         {"queue", "q"},
         {"priorityClassName", "p"},
         {"minResources", {{"cpu", 2}, {"memory", "1Gi"}}},
         {"scheduleTimeoutSeconds", 9}}},
       {"status",
        {{"phase", "Pending"},
         {"conditions",
          Json::array({{{"type", "Scheduled"}, {"status", "False"}, {"message", "no"}},
                       {{"type", "Unschedulable"}, {"status", "True"}, {"message", "why"}}})}}}});
  EXPECT_EQ(view.name, "j");
  EXPECT_EQ(view.owner_uid, "job");
  EXPECT_EQ(view.phase, "Pending");
  EXPECT_EQ(view.message, "why");
  EXPECT_EQ(view.spec, (PodGroupSpec{3, "q", "p", {{"cpu", "2"}, {"memory", "1Gi"}}, 9}));
  EXPECT_EQ(PodGroupViewOf({{"spec", 7}, {"status", {{"conditions", {1, "x"}}}}}), PodGroupView());
}

}  // namespace
}  // namespace tfjob
