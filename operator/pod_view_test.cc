// Projections of pods and services as API servers write them, and of what nobody should write.
#include "operator/pod_view.h"

#include <gtest/gtest.h>

#include "operator/api/names.h"

namespace tfjob {
namespace {

Json Pod() {
  return Json::parse(R"({
    "metadata": {"name": "j-worker-3", "namespace": "ns", "uid": "u1", "resourceVersion": "42",
      "deletionTimestamp": "2026-01-02T03:04:05Z",
      "labels": {"training.kubeflow.org/job-name": "j", "training.kubeflow.org/replica-type": "worker",
                 "training.kubeflow.org/replica-index": "3"},
      "ownerReferences": [{"kind": "Other", "uid": "o0"},
                          {"kind": "TFJob", "name": "j", "uid": "o1", "controller": true}]},
    "status": {"phase": "Failed", "reason": "Evicted",
      "initContainerStatuses": [{"name": "init", "restartCount": 2}],
      "containerStatuses": [
        {"name": "sidecar", "restartCount": 1, "state": {"terminated": {"exitCode": 7}}},
        {"name": "tensorflow", "restartCount": 3, "state": {"terminated": {"exitCode": 137}}}],
      "conditions": [{"type": "Ready", "status": "False"},
                     {"type": "DisruptionTarget", "status": "True"}]}})");
}

TEST(PodViewOf, ReadsWhatDecisionsNeed) {
  const PodView view = PodViewOf(Pod());
  EXPECT_EQ(view.name, "j-worker-3");
  EXPECT_EQ(view.uid, "u1");
  EXPECT_EQ(view.owner_uid, "o1");
  EXPECT_TRUE(view.owned_by_namesake);
  EXPECT_EQ(view.type, "worker");
  EXPECT_EQ(view.index, 3);
  EXPECT_EQ(view.phase, PodPhase::kFailed);
  EXPECT_EQ(view.reason, "Evicted");
  EXPECT_EQ(view.exit_code, 137);
  EXPECT_EQ(view.restart_count, 6);
  EXPECT_TRUE(view.disrupted);
  EXPECT_FALSE(view.ready);
  EXPECT_TRUE(view.deletion_time.has_value());
  EXPECT_EQ(JobKeyOf(Pod()), "ns/j");
  EXPECT_EQ(KeyOf(Pod()), "ns/j-worker-3");
  EXPECT_EQ(ResourceVersionOf(Pod()), 42u);
}

TEST(PodViewOf, JudgesAPodWithoutItsSidecars) {
  constexpr int kRuns = -1;
  const struct {
    const char* policy;
    const char* phase;
    int tensorflow, helper, proxy;  // exit codes
    PodPhase judged;
    bool sidecar_runs;
  } kCases[] = {
      {"Never", "Running", kRuns, 0, kRuns, PodPhase::kRunning, false},
      {"Never", "Running", 0, kRuns, kRuns, PodPhase::kRunning, false},
      {"Never", "Running", 0, 0, kRuns, PodPhase::kSucceeded, true},
      {"Never", "Running", 137, 0, kRuns, PodPhase::kFailed, true},
      {"Never", "Running", 0, 1, kRuns, PodPhase::kFailed, true},
      {"OnFailure", "Running", 0, 0, kRuns, PodPhase::kSucceeded, true},
      {"OnFailure", "Running", 1, 0, kRuns, PodPhase::kRunning, false},
      {"Always", "Running", 0, 0, kRuns, PodPhase::kRunning, false},
      {"Never", "Failed", 0, 0, 143, PodPhase::kSucceeded, false},
      {"Never", "Failed", 3, 0, 0, PodPhase::kFailed, false},
      {"Always", "Failed", 1, 0, 0, PodPhase::kFailed, false},
      {"Never", "Pending", 0, 0, kRuns, PodPhase::kPending, false},
  };
  for (const auto& c : kCases) {
    const auto container = [](const char* name, int code) -> Json {
      const Json runs = {{"running", Json::object()}};
      const Json ended = {{"terminated", {{"exitCode", code}, {"reason", "why"}}}};
      return {{"name", name}, {"state", code == kRuns ? runs : ended}};
    };
    const Json pod = {{"spec", {{"restartPolicy", c.policy}}},
                      {"status",
                       {{"phase", c.phase},
                        {"containerStatuses",
                         {container("tensorflow", c.tensorflow), container("helper", c.helper),
                          container("proxy", c.proxy)}}}}};
    const PodView view = PodViewOf(pod, {"proxy"});
    EXPECT_EQ(view.phase, c.judged) << pod;
    EXPECT_EQ(view.sidecar_runs, c.sidecar_runs) << pod;
    EXPECT_EQ(view.end_reason, c.judged == PodPhase::kFailed ? "why" : "") << pod;
    EXPECT_EQ(PhaseName(PodViewOf(pod).phase), c.phase) << "where nothing is known of sidecars";
  }
  const Json alone = Json::parse(R"({"status": {"phase": "Running", "containerStatuses": [
      {"name": "proxy", "state": {"running": {}}}]}})");
  EXPECT_EQ(PodViewOf(alone, {"proxy"}).phase, PodPhase::kRunning);
}

TEST(PodViewOf, KnowsItsIpButNotThatOfItsNode) {
  Json pod = Pod();
  EXPECT_EQ(PodViewOf(pod).ip, "");
  pod["status"]["podIP"] = "10.0.0.7";
  EXPECT_EQ(PodViewOf(pod).ip, "10.0.0.7");
  pod["spec"]["hostNetwork"] = true;
  EXPECT_EQ(PodViewOf(pod).ip, "");
}

TEST(PodViewOf, SaysHowAFailedPodEnded) {
  Json pod = Pod();
  Json& terminated = pod["status"]["containerStatuses"][1]["state"]["terminated"];
  terminated["reason"] = "OOMKilled";
  terminated["finishedAt"] = "2026-01-02T03:04:05Z";
  std::string words = "é";  // two bytes, of which the cut would leave one
  words.append(1023, 'x');
  terminated["message"] = words;
  const PodView view = PodViewOf(pod);
  EXPECT_EQ(view.end_reason, "OOMKilled");
  EXPECT_EQ(view.end_message, std::string(1023, 'x'));
  EXPECT_EQ(view.end_time, absl::FromUnixSeconds(1767323045));
  EXPECT_EQ(view.failed_conditions.at("Ready"), kFalse);
  EXPECT_EQ(view.failed_conditions.at(kDisruptionTarget), kTrue);
  pod["status"]["phase"] = "Running";
  EXPECT_EQ(PodViewOf(pod).end_reason, "");
  EXPECT_TRUE(PodViewOf(pod).failed_conditions.empty());
}

TEST(PodViewOf, SeesWhetherItsTaskSpeaksTls) {
  Json pod = Pod();
  EXPECT_FALSE(PodViewOf(pod).task_tls);
  pod["spec"]["volumes"] = {{{"name", "trainyard-task-tls"}, {"secret", {{"secretName", "s"}}}}};
  EXPECT_TRUE(PodViewOf(pod).task_tls);
}

TEST(PodViewOf, SaysWhyAPodDoesNotGetOn) {
  Json pod = {{"status", {{"phase", "Pending"}}}};
  pod["status"]["containerStatuses"] = Json::parse(
      R"([{"name": "tensorflow", "state": {"waiting": {"reason": "ContainerCreating"}}}])");
  EXPECT_EQ(PodViewOf(pod).waiting_reason, "");
  pod["status"]["containerStatuses"] = Json::parse(
      R"([{"name": "tensorflow", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "m"}}}])");
  EXPECT_EQ(PodViewOf(pod).waiting_reason, "ImagePullBackOff");
  EXPECT_EQ(PodViewOf(pod).waiting_message, "container tensorflow waiting message: m");
  pod["status"]["containerStatuses"] = nullptr;
  pod["status"]["conditions"] = Json::parse(
      R"([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3"}])");
  EXPECT_EQ(PodViewOf(pod).waiting_reason, "Unschedulable");
  EXPECT_EQ(PodViewOf(pod).waiting_message, "condition message: 0/3");
}

TEST(PodViewOf, TakesAnything) {
  for (const char* text : {"null", "[]", "7", R"({"metadata": 3, "status": []})",
                           R"({"metadata": {"labels": [], "ownerReferences": {}, "uid": 5,
                               "deletionTimestamp": "soon"}, "status": {"conditions": 1,
                               "containerStatuses": [null, {"restartCount": "x"}]}})"}) {
    const Json json = Json::parse(text);
    EXPECT_EQ(PodViewOf(json), PodView()) << text;
    EXPECT_EQ(ServiceViewOf(json), ServiceView()) << text;
    EXPECT_EQ(JobKeyOf(json), "") << text;
    EXPECT_EQ(ResourceVersionOf(json), 0u) << text;
  }
}

TEST(PodViewOf, TakesNoIndexFromABadLabel) {  // K6
  Json pod = Pod();
  for (const char* index : {"", "x", "-1", "1.5"}) {
    pod["metadata"]["labels"][kLabelReplicaIndex] = index;
    EXPECT_EQ(PodViewOf(pod).index, -1) << index;
  }
}

}  // namespace
}  // namespace tfjob
