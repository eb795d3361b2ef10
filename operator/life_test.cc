// Whole lives of jobs against the fake API server: what is called, what remains, what goes wrong
// and rights itself.
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
using ::testing::IsSupersetOf;
using ::testing::Not;

Json CleanRunning() { return {{"runPolicy", {{"cleanPodPolicy", "Running"}}}}; }

void RunToSuccess(Life& life) {
  life.Submit("j", {{"PS", 1}, {"Worker", 2}}, CleanRunning());
  life.server().ClearCalls();
  life.Settle();
  for (const char* pod : {"j-ps-0", "j-worker-0", "j-worker-1"}) {
    life.SetPod(pod, "Running");
    life.Sync();
    life.Pass();
  }
  life.Settle();
  life.SetPod("j-worker-1", "Succeeded", 0);
  life.Settle();
  life.SetPod("j-worker-0", "Succeeded", 0);
  life.Settle();
}

TEST(Life, EndsWellAndCostsFewCalls) {
  Life life;
  RunToSuccess(life);
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created", "Running=False", "Succeeded"));
  EXPECT_THAT(life.Names(kube::kPods), ElementsAre("j-worker-0", "j-worker-1"));
  EXPECT_THAT(life.Names(kube::kServices), IsEmpty());
  EXPECT_LE(life.CallsMade(), 16);
  EXPECT_LE(life.server().Count("create", "events") + life.server().Count("patch", "events"), 5);
  EXPECT_LE(life.server().Count("status", "tfjobs"), 4);
  EXPECT_EQ(life.server().Count("get", "pods") + life.server().Count("get", "services"), 0);
  for (const kube::FakeCall& call : life.server().Calls()) {
    EXPECT_LT(call.code, 300) << call.verb << " " << call.plural << " " << call.name;
  }
  EXPECT_THAT(life.Events(),
              IsSupersetOf({"SuccessfulCreatePod: Created pod: j-ps-0, j-worker-0, j-worker-1",
                            "TFJobSucceeded: TFJob ns/j successfully completed.",
                            "SuccessfulDeletePod: Deleted pod: j-ps-0; deleted service: j-ps-0, "
                            "j-worker-0, j-worker-1"}));
  for (const char* metric : {"created", "successful"}) EXPECT_EQ(life.Metric(metric), 1) << metric;
  for (const char* metric : {"failed", "restarted"}) EXPECT_EQ(life.Metric(metric), 0) << metric;
}

TEST(Life, RunningGoesBeforeNewJobsAndCleaningUpAfterThem) {
  Life life;
  life.Submit("j", {{"Worker", 2}}, CleanRunning());
  life.Settle();
  life.SetPod("j-worker-1", "Running");
  life.Sync();
  runtime::Outcome outcome = life.Pass().at("ns/j");  // waits for the other pod
  EXPECT_EQ(outcome.kind, runtime::Outcome::Kind::kRequeueAfter);
  EXPECT_EQ(outcome.priority, runtime::Priority::kHigh);
  life.Settle();
  life.SetPod("j-worker-0", "Succeeded", 0);
  life.Sync();
  outcome = life.Pass().at("ns/j");
  EXPECT_THAT(life.Conditions("j"), Contains("Succeeded"));
  EXPECT_EQ(outcome.kind, runtime::Outcome::Kind::kRequeueAfter);
  EXPECT_EQ(outcome.priority, runtime::Priority::kLow);
}

TEST(Life, InABurstOneWriteSaysCreatedAndRunning) {
  Life life({.busy = true});
  life.Submit("j", {{"PS", 1}, {"Worker", 2}});
  life.Sync();
  const absl::Time start = life.clock().Now();
  const runtime::Outcome outcome = life.Pass().at("ns/j");
  EXPECT_EQ(outcome.kind, runtime::Outcome::Kind::kRequeueAfter);
  EXPECT_EQ(outcome.priority, runtime::Priority::kLow);
  EXPECT_EQ(life.Names(kube::kPods).size(), 3u);
  life.clock().Advance(absl::Seconds(3));
  life.Sync();
  life.Pass();
  EXPECT_THAT(life.Conditions("j"), IsEmpty());
  life.SetPod("j-worker-0", "Running");
  life.Sync();
  EXPECT_EQ(life.Pass().at("ns/j").priority, runtime::Priority::kHigh);
  EXPECT_THAT(life.Conditions("j"), IsEmpty());
  life.SetAll("Running");
  life.Settle();
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created", "Running"));
  EXPECT_EQ(life.server().Count("status", "tfjobs"), 1);
  EXPECT_EQ(life.Job("j")["status"]["startTime"], base::TimeText(start));
  EXPECT_EQ(life.Metric("created"), 1);
  EXPECT_THAT(life.Events(), Contains(HasSubstr("SuccessfulCreatePod: Created pod: j-ps-0")));
}

TEST(Life, EvenInABurstCreatedIsWrittenInTime) {
  Life life({.busy = true});
  life.Submit("j", {{"Worker", 2}});
  life.Sync();
  const absl::Time start = life.clock().Now();
  for (int i = 0; i < 10; ++i) {
    const runtime::Outcome outcome = life.Pass().at("ns/j");
    EXPECT_EQ(outcome.kind, runtime::Outcome::Kind::kRequeueAfter);
    EXPECT_EQ(outcome.after, absl::Seconds(10 - i));
    EXPECT_THAT(life.Conditions("j"), IsEmpty()) << i;
    life.clock().Advance(absl::Seconds(1));
  }
  EXPECT_EQ(life.Pass().at("ns/j").kind, runtime::Outcome::Kind::kDone);
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created"));
  EXPECT_EQ(life.Job("j")["status"]["startTime"], base::TimeText(start));
}

TEST(Life, MakesServicesBeforePods) {
  Life life;
  life.Submit("j", {{"Worker", 6}});
  life.Settle();
  bool saw_pod = false;
  for (const kube::FakeCall& call : life.server().Calls()) {
    if (call.verb != "create") continue;
    saw_pod |= call.plural == "pods";
    EXPECT_FALSE(saw_pod && call.plural == "services") << call.name;
  }
  EXPECT_EQ(life.Names(kube::kPods).size(), 6u);
}

TEST(Life, CreatesOnceThoughTheWatchLags) {
  Life life;
  life.Submit("j", {{"Worker", 3}});
  life.Sync();
  for (int i = 0; i < 5; ++i) {
    life.Pass();
    life.Sync(/*pods=*/false);
  }
  EXPECT_EQ(life.server().Count("create", "pods"), 3);
}

TEST(Life, DeletesOnceThoughTheWatchLags) {
  Life life({.graceful_pods = true});
  life.Submit("j", {{"Worker", 1}}, {{"runPolicy", {{"suspend", false}}}});
  life.Settle();
  Json job = life.Job("j");
  job["spec"]["runPolicy"]["suspend"] = true;
  life.server().Put(kube::kTfJobs, job);
  life.Sync();
  for (int i = 0; i < 5; ++i) {
    life.Pass();
    life.Sync(/*pods=*/false);
  }
  EXPECT_EQ(life.server().Count("delete", "pods"), 1);
}

// 1 ps + 2 workers with policy All, which have all ended.
void Finish(Life& life) {
  life.Submit("j", {{"PS", 1}, {"Worker", 2}}, {{"runPolicy", {{"cleanPodPolicy", "All"}}}});
  life.Settle();
  life.SetAll("Running");
  life.Settle();
  for (const char* pod : {"j-ps-0", "j-worker-1", "j-worker-0"}) life.SetPod(pod, "Succeeded", 0);
}

TEST(Life, DeletesAllOfAFinishedJobWithOneCallAKind) {
  Life life;
  Finish(life);
  life.Settle();
  EXPECT_EQ(life.server().Count("deletecollection", "pods"), 1);
  EXPECT_EQ(life.server().Count("deletecollection", "services"), 1);
  EXPECT_EQ(life.server().Count("delete", "pods"), 0);
  EXPECT_EQ(life.server().Count("delete", "services"), 0);
  EXPECT_THAT(life.Names(kube::kPods), IsEmpty());
  EXPECT_THAT(life.Names(kube::kServices), IsEmpty());
}

TEST(Life, DeletesOneByOneWhereAStrangerCarriesTheJobsLabels) {
  Life life;
  Finish(life);
  Json copy = *life.server().Find(kube::kPods, "ns", "j-worker-0");
  copy["metadata"] = {
      {"name", "debug"}, {"namespace", "ns"}, {"labels", copy["metadata"]["labels"]}};
  life.server().Put(kube::kPods, copy);
  life.Settle();
  EXPECT_EQ(life.server().Count("deletecollection", "pods"), 0);
  EXPECT_THAT(life.Names(kube::kPods), ElementsAre("debug"));
}

TEST(Life, DeletesOneByOneWhatV19Made) {
  Life life;
  Finish(life);
  Json pod = *life.server().Find(kube::kPods, "ns", "j-ps-0");
  pod["metadata"]["labels"].erase(kLabelJobUid);
  life.server().Put(kube::kPods, pod);
  life.Settle();
  EXPECT_EQ(life.server().Count("deletecollection", "pods"), 0);
  EXPECT_THAT(life.Names(kube::kPods), IsEmpty());
}

TEST(Life, DeletesOneByOneWhereItMayNotDeleteMany) {
  Life life;
  life.server().SetFaults([](const kube::FakeCall& call) {
    kube::FakeFault fault;
    if (call.verb == "deletecollection") fault = {.code = 403, .reason = "Forbidden"};
    return fault;
  });
  Finish(life);
  life.Settle();
  EXPECT_EQ(life.server().Count("delete", "pods"), 3);
  EXPECT_THAT(life.Names(kube::kPods), IsEmpty());
  EXPECT_THAT(life.Names(kube::kServices), IsEmpty());
}

TEST(Life, RestartsAFailedReplicaAndCountsItOnce) {
  Life life;
  life.Submit("j", {{"Worker", 2}});
  life.Settle();
  life.SetAll("Running");
  life.Settle();
  life.SetPod("j-worker-1", "Failed", 137);
  life.Settle();
  EXPECT_EQ(life.Job("j")["status"]["replicaStatuses"]["Worker"]["restarts"], 1);
  EXPECT_EQ(life.Metric("restarted"), 1);
  EXPECT_EQ(life.server().Count("create", "pods"), 3);
  EXPECT_THAT(life.Events(), Contains("ExitedWithCode: Pod: ns.j-worker-1 exited with code 137"));
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created", "Running"));
}

TEST(Life, NeverRunsASucceededIndexAgainThoughItsPodIsGoneAtOnce) {
  Life life;
  life.Submit("j", {{"Worker", 2}}, {{"successPolicy", "AllWorkers"}});
  life.Settle();
  life.SetAll("Running");
  life.Settle();
  life.SetPod("j-worker-1", "Succeeded", 0);
  life.Sync();  // seen, and gone before the next pass
  life.server().Remove(kube::kPods, "ns", "j-worker-1");
  life.Settle();
  EXPECT_THAT(life.Names(kube::kPods), ElementsAre("j-worker-0"));
  EXPECT_EQ(life.Job("j")["status"]["replicaStatuses"]["Worker"]["succeeded"], 1);
}

TEST(Life, ATtlTakesTheJobAndItsChildren) {
  Life life;
  life.Submit("j", {{"Worker", 1}}, {{"runPolicy", {{"ttlSecondsAfterFinished", 30}}}});
  life.Settle();
  life.SetPod("j-worker-0", "Succeeded", 0);
  life.Settle();
  EXPECT_THAT(life.Names(kube::kTfJobs), ElementsAre("j"));
  life.clock().Advance(absl::Seconds(31));
  life.Settle();
  life.server().CollectGarbage();
  life.Settle();
  EXPECT_THAT(life.Names(kube::kTfJobs), IsEmpty());
  EXPECT_THAT(life.Names(kube::kPods), IsEmpty());
  EXPECT_THAT(life.Events(), Contains("SuccessfulDeleteJob: Deleted job: j"));
  EXPECT_EQ(life.Metric("deleted"), 1);
}

TEST(Life, AskedForItsDeadlineItComesBackInTime) {
  Life life;
  life.Submit("j", {{"Worker", 1}}, {{"runPolicy", {{"activeDeadlineSeconds", 60}}}});
  life.Sync();
  const auto outcomes = life.Pass();
  EXPECT_EQ(outcomes.at("ns/j").kind, runtime::Outcome::Kind::kRequeueAfter);
  EXPECT_LE(outcomes.at("ns/j").after, absl::Seconds(60));
  life.clock().Advance(absl::Seconds(60));
  life.Settle();
  EXPECT_THAT(life.Conditions("j"), Contains("Failed"));
  EXPECT_EQ(life.Metric("failed"), 1);
}

TEST(Life, AQuotaBlocksWithAdviceBacksOffAndRecovers) {
  Life life;
  life.RefuseCreations(
      "pods", {.code = 403, .reason = "Forbidden", .message = "exceeded quota: q, used: pods=3"});
  life.Submit("j", {{"Worker", 2}});
  life.Settle(absl::ZeroDuration());
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created", "Blocked"));
  EXPECT_THAT(life.Job("j")["status"]["conditions"][1]["message"].get<std::string>(),
              HasSubstr("to do: raise the quota"));
  EXPECT_THAT(life.Events(), Contains(HasSubstr("FailedCreatePod: Error creating: ")));
  // Woken by anything, it does not try again before its time.
  const int tries = life.server().Count("create", "pods");
  for (int i = 0; i < 20; ++i) life.Pass();
  EXPECT_EQ(life.server().Count("create", "pods"), tries);
  const int status_writes = life.server().Count("status", "tfjobs");
  life.Settle(absl::Minutes(2));
  EXPECT_EQ(life.server().Count("status", "tfjobs"), status_writes);
  life.server().SetFaults({});
  life.clock().Advance(absl::Minutes(3));
  life.Settle();
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created"));
  EXPECT_EQ(life.Names(kube::kPods).size(), 2u);
}

TEST(Life, AWebhookThatIsAwayBlocksThoughTheServerCallsItAnInternalError) {
  Life life;
  life.RefuseCreations(
      "pods", {.code = 500,
               .reason = "InternalError",
               .message = "Internal error occurred: failed calling webhook \"w\": failed to call "
                          "webhook: dial tcp 127.0.0.1:1: connect: connection refused"});
  life.Submit("j", {{"Worker", 1}});
  life.Settle(absl::ZeroDuration());
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created", "Blocked"));
  EXPECT_THAT(life.Job("j")["status"]["conditions"][1]["message"].get<std::string>(),
              HasSubstr("to do: let whoever keeps that webhook repair it"));
  life.server().SetFaults({});
  life.clock().Advance(absl::Minutes(3));
  life.Settle();
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created"));
}

TEST(Life, AForeignPodWithItsNameBlocksUntilItGoes) {
  Life life;
  life.server().Put(kube::kPods, {{"metadata", {{"name", "j-worker-0"}, {"namespace", "ns"}}}});
  life.Submit("j", {{"Worker", 1}});
  life.Settle(absl::ZeroDuration());
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created", "Blocked"));
  EXPECT_THAT(life.Events(), Contains("PodNameTaken: Pod j-worker-0 belongs to another owner; "
                                      "delete or rename it"));
  life.server().Remove(kube::kPods, "ns", "j-worker-0");
  life.clock().Advance(absl::Minutes(3));
  life.Settle();
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created"));
  EXPECT_THAT(life.Names(kube::kPods), ElementsAre("j-worker-0"));
}

TEST(Life, AForeignServiceKeepsNobodyElseWaiting) {
  Life life;
  life.server().Put(kube::kServices,
                    {{"metadata",
                      {{"name", "j-worker-1"},
                       {"namespace", "ns"},
                       {"ownerReferences", Json::array({{{"uid", "x"}, {"controller", true}}})}}}});
  life.Submit("j", {{"Worker", 3}});
  life.Settle(absl::ZeroDuration());
  EXPECT_THAT(life.Names(kube::kPods), ElementsAre("j-worker-0", "j-worker-1", "j-worker-2"));
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created", "Blocked"));
}

TEST(Life, AConflictOfADeletionIsNoDeletion) {
  Life life;
  life.Submit("j", {{"Worker", 2}});
  life.Settle();
  life.SetAll("Running");
  life.Settle();
  int refused = 0;
  life.server().SetFaults([&](const kube::FakeCall& call) {
    kube::FakeFault fault;
    if (call.verb == "delete" && ++refused <= 3) fault = {.code = 409, .reason = "Conflict"};
    return fault;
  });
  life.SetPod("j-worker-1", "Failed", 137);
  life.Settle();
  EXPECT_EQ(life.server().Count("create", "pods"), 3);
  EXPECT_EQ(life.server().Count("get", "pods"), 0);
}

TEST(Life, RestartsWaitLongerEachTime) {
  Life life;
  life.Submit("j", {{"Worker", 1}});
  absl::Time before = life.clock().Now();
  std::vector<absl::Duration> waits;
  for (int i = 0; i < 5; ++i) {
    life.Settle(absl::Minutes(10));
    waits.push_back(life.clock().Now() - before);
    before = life.clock().Now();
    life.SetPod("j-worker-0", "Failed", 137);
  }
  EXPECT_THAT(waits, ElementsAre(absl::ZeroDuration(), absl::ZeroDuration(), absl::Seconds(1),
                                 absl::Seconds(2), absl::Seconds(4)));
}

TEST(Life, TakesOverItsOwnPodsAfterALostAnswer) {
  Life life;
  int lost = 0;
  life.server().SetFaults([&](const kube::FakeCall& call) {
    kube::FakeFault fault;
    if (call.verb == "create" && call.plural == "pods" && ++lost == 1) fault.cut_after = true;
    return fault;
  });
  life.Submit("j", {{"Worker", 2}});
  life.Sync();
  EXPECT_EQ(life.Pass().at("ns/j").kind, runtime::Outcome::Kind::kRetry);
  life.Pass();  // before any watch has shown the pod
  EXPECT_THAT(life.Names(kube::kPods), ElementsAre("j-worker-0", "j-worker-1"));
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created"));
}

TEST(Life, AdoptsAnOrphanedService) {
  Life life;
  life.Submit("j", {{"Worker", 1}});
  life.Settle();
  Json service = *life.server().Find(kube::kServices, "ns", "j-worker-0");
  service["metadata"].erase("ownerReferences");
  life.server().Put(kube::kServices, service);
  life.Settle();
  service = *life.server().Find(kube::kServices, "ns", "j-worker-0");
  EXPECT_EQ(service["metadata"]["ownerReferences"][0]["name"], "j");
}

TEST(Life, ConflictsAndServerErrorsEndInTheSameState) {
  for (const int code : {409, 500, 503, 429}) {
    Life life;
    life.FailEveryThirdCall(code);
    RunToSuccess(life);
    EXPECT_THAT(life.Conditions("j"), ElementsAre("Created", "Running=False", "Succeeded")) << code;
    EXPECT_THAT(life.Names(kube::kPods), ElementsAre("j-worker-0", "j-worker-1")) << code;
    EXPECT_EQ(life.Metric("created"), 1) << code;
    EXPECT_EQ(life.Metric("successful"), 1) << code;
  }
}

TEST(Life, TellsOnceWhyPodsWait) {
  Life life;
  life.Submit("j", {{"Worker", 3}});
  life.Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1", "j-worker-2"}) {
    life.server().SetStatus(kube::kPods, "ns", pod,
                            {{"phase", "Pending"},
                             {"conditions", Json::array({{{"type", "PodScheduled"},
                                                          {"status", "False"},
                                                          {"reason", "Unschedulable"},
                                                          {"message", "0/3 nodes"}}})}});
  }
  for (int i = 0; i < 3; ++i) life.Settle();
  EXPECT_THAT(life.Events(), Contains("Unschedulable: Error pod j-worker-0 condition message: 0/3 "
                                      "nodes (and 2 more pods)"));
  EXPECT_THAT(life.controller().Debug().dump(), HasSubstr("Unschedulable"));
}

TEST(Life, AsV19SendsAnEventForEachAction) {
  Life life({.compat_v19 = true});
  life.Submit("j", {{"Worker", 2}});
  life.Settle();
  EXPECT_THAT(life.Events(), IsSupersetOf({"SuccessfulCreatePod: Created pod: j-worker-0",
                                           "SuccessfulCreatePod: Created pod: j-worker-1"}));
}

TEST(Life, AJobMadeAnewWaitsForThePodsOfTheOldOne) {
  Life life({.graceful_pods = true});
  life.Submit("j", {{"Worker", 1}});
  life.Settle();
  life.server().Remove(kube::kTfJobs, "ns", "j");
  life.Submit("j", {{"Worker", 1}});
  life.Settle(absl::ZeroDuration());
  EXPECT_THAT(life.Conditions("j"), Not(Contains("Blocked")));
  life.server().CollectGarbage();
  life.server().FinishDeletions();
  life.Settle();
  EXPECT_THAT(life.Names(kube::kPods), ElementsAre("j-worker-0"));
  const Json pod = *life.server().Find(kube::kPods, "ns", "j-worker-0");
  EXPECT_EQ(PodViewOf(pod).owner_uid, UidOf(life.Job("j")));
}

TEST(Life, AnOlderWatchEventDoesNotUndoItsOwnWrite) {
  Life life;
  life.Submit("j", {{"Worker", 1}});
  life.Sync();
  Json stale = life.Job("j");
  life.Pass();
  const auto sink = life.cache().MakeJobSink("");
  sink->OnObject(stale);
  const int writes = life.server().Count("status", "tfjobs");
  life.Pass();
  EXPECT_EQ(life.server().Count("status", "tfjobs"), writes);
}

}  // namespace
}  // namespace tfjob
