// One file although it is long: half of it is the table of all causes, beside the builders of
// objects that the table and every other case speak in.
#include "operator/cli/cluster/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "operator/cli/cluster/describe.h"

namespace tfjob {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kEarlier[] = "2026-11-22T06:58:00Z";
constexpr char kRecently[] = "2026-11-22T06:59:00Z";

absl::Time Now() {
  return absl::FromCivil(absl::CivilSecond(2026, 11, 22, 7, 0, 0), absl::UTCTimeZone());
}

Json True(const std::string& type, const std::string& reason, const std::string& message) {
  return {{"type", type},
          {"status", "True"},
          {"reason", reason},
          {"message", message},
          {"lastUpdateTime", kRecently},
          {"lastTransitionTime", kRecently}};
}

Json Job(const std::vector<Json>& conditions, const Json& run_policy = Json::object()) {
  Json all = Json::array({True("Created", "TFJobCreated", "TFJob mine is created.")});
  for (const Json& condition : conditions) all.push_back(condition);
  return {{"apiVersion", "kubeflow.org/v1"},
          {"kind", "TFJob"},
          {"metadata",
           {{"name", "mine"},
            {"namespace", "default"},
            {"uid", "j1"},
            {"creationTimestamp", kEarlier}}},
          {"spec",
           {{"runPolicy", run_policy},
            {"tfReplicaSpecs", {{"PS", {{"replicas", 1}}}, {"Worker", {{"replicas", 2}}}}}}},
          {"status", {{"conditions", all}}}};
}

Json Pod(const std::string& name, const Json& status, const Json& spec = Json::object()) {
  return {{"metadata",
           {{"name", name},
            {"namespace", "default"},
            {"uid", "u-" + name},
            {"creationTimestamp", kEarlier}}},
          {"spec", spec},
          {"status", status}};
}

Json Unplaced(const std::string& words) {
  return {{"phase", "Pending"},
          {"conditions",
           {{{"type", "PodScheduled"},
             {"status", "False"},
             {"reason", "Unschedulable"},
             {"message", words}}}}};
}

Json Container(const Json& state, const Json& last_state = Json::object(), int restarts = 0) {
  return {{"name", "tensorflow"},
          {"state", state},
          {"lastState", last_state},
          {"restartCount", restarts}};
}

Json Waiting(const std::string& reason, const std::string& message) {
  return {{"waiting", {{"reason", reason}, {"message", message}}}};
}

Json Ended(int code, const std::string& reason, const std::string& message = "") {
  return {{"terminated", {{"exitCode", code}, {"reason", reason}, {"message", message}}}};
}

Json Pending(const Json& container) {
  return {{"phase", "Pending"},
          {"conditions", {{{"type", "PodScheduled"}, {"status", "True"}}}},
          {"containerStatuses", Json::array({container})}};
}

Json Running(const Json& container) {
  return {{"phase", "Running"},
          {"conditions", {{{"type", "Ready"}, {"status", "True"}}}},
          {"containerStatuses", Json::array({container})}};
}

// The same with more containers, which run.
Json Beside(const std::vector<std::string>& names, Json status) {
  for (const std::string& name : names) {
    status["containerStatuses"].push_back(
        {{"name", name}, {"state", {{"running", {{"startedAt", kEarlier}}}}}});
  }
  return status;
}

Json FailedPod(const Json& container) {
  return {{"phase", "Failed"}, {"containerStatuses", Json::array({container})}};
}

Json Event(const std::string& kind, const std::string& name, const std::string& reason,
           const std::string& message, const char* time = kRecently) {
  return {{"involvedObject", {{"kind", kind}, {"name", name}, {"uid", "u-" + name}}},
          {"type", "Warning"},
          {"reason", reason},
          {"message", message},
          {"lastTimestamp", time}};
}

Json Refused(const std::string& message) {
  return Job({True("Blocked", "FailedCreatePod",
                   "Error creating: create pods default/mine-worker-0: " + message)});
}

const std::vector<Json> kStarted;

struct Case {
  const char* name;
  Cause cause;
  const char* object;  // that the first finding names
  const char* says;    // part of it
  const char* todo;    // part of it
  JobPicture picture;
};

std::vector<Case> Cases() {
  const std::string worker = "mine-worker-0";
  const Json claim_volume = {
      {"volumes", {{{"name", "d"}, {"persistentVolumeClaim", {{"claimName", "digits"}}}}}}};
  return {
      {"ImageMissing",
       Cause::kImageMissing,
       "pod mine-worker-0",
       "nope:1: not found",
       "load it",
       {.job = Job(kStarted),
        .pods = {Pod(worker, Pending(Container(Waiting("ImagePullBackOff",
                                                       "Back-off pulling image \"nope:1\""))))},
        .events =
            {Event("Pod", worker, "Failed",
                   "Failed to pull image \"nope:1\": rpc error: code = NotFound desc = failed to "
                   "resolve reference \"docker.io/library/nope:1\": "
                   "docker.io/library/nope:1: not found",
                   kEarlier),
             Event("Pod", worker, "Failed", "Error: ImagePullBackOff", kEarlier)}}},
      {"ClaimPending",
       Cause::kVolumeClaim,
       "pod mine-worker-0",
       "no storage class is set",
       "describe pvc",
       {.job = Job(kStarted),
        .pods = {Pod(worker,
                     Unplaced("0/2 nodes are available: pod has unbound immediate "
                              "PersistentVolumeClaims. preemption: 0/2 nodes are available: 2 "
                              "Preemption is not helpful for scheduling."),
                     claim_volume)},
        .events = {Event(
            "PersistentVolumeClaim", "digits", "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set")},
        .claims = {{{"metadata", {{"name", "digits"}}}, {"status", {{"phase", "Pending"}}}}},
        .claims_known = true}},
      {"ClaimMissing",
       Cause::kVolumeClaim,
       "pod mine-worker-0",
       "\"digits\" not found",
       "create the claim",
       {.job = Job(kStarted),
        .pods = {Pod(
            worker,
            Unplaced("0/2 nodes are available: persistentvolumeclaim \"digits\" not found."),
            claim_volume)},
        .claims_known = true}},
      {"Quota",
       Cause::kQuota,
       "TFJob mine",
       "used: pods=2",
       "raise the quota",
       {.job = Refused(
            "pods \"mine-worker-0\" is forbidden: exceeded quota: quota, requested: pods=1, "
            "used: pods=2, limited: pods=2 (HTTP 403 Forbidden) (to do: raise the quota or "
            "free what others use of it)")}},
      {"NodeSelector",
       Cause::kNodeSelector,
       "pod mine-worker-0",
       "didn't match",
       "label a node",
       {.job = Job(kStarted),
        .pods = {Pod(
            worker,
            Unplaced("0/3 nodes are available: 1 node(s) had untolerated taint "
                     "{node-role.kubernetes.io/control-plane: }, 2 node(s) didn't match Pod's "
                     "node affinity/selector. preemption: 0/3 nodes are available: 3 "
                     "Preemption is not helpful for scheduling."))}}},
      {"GpuShortage",
       Cause::kGpuShortage,
       "pod mine-worker-0",
       "2 Insufficient nvidia.com/gpu",
       "ask for fewer",
       {.job = Job(kStarted),
        .pods = {Pod(
            worker,
            Unplaced("0/3 nodes are available: 1 node(s) had untolerated taint "
                     "{node-role.kubernetes.io/control-plane: }, 2 Insufficient "
                     "nvidia.com/gpu. preemption: 0/3 nodes are available: 1 Preemption is "
                     "not helpful for scheduling, 2 No preemption victims found for incoming "
                     "pod."))}}},
      {"OutOfMemory",
       Cause::kOutOfMemory,
       "pod mine-worker-0",
       "OOMKilled",
       "limits.memory",
       {.job = Job({True("Restarting", "TFJobRestarting",
                         "job mine is restarting because Worker replica(s) failed.")}),
        .pods = {Pod(worker, FailedPod(Container(Ended(137, "OOMKilled"))))}}},
      {"CrashLoop",
       Cause::kCrashLoop,
       "pod mine-worker-0",
       "exit code 1 (Error) and was started again 4",
       "trainyard logs mine",
       {.job = Job({True("Running", "TFJobRunning", "TFJob default/mine is running.")}),
        .pods = {Pod(worker, Running(Container(
                                 Waiting("CrashLoopBackOff",
                                         "back-off 1m20s restarting failed container=tensorflow"),
                                 Ended(1, "Error"), 4)))},
        .logs = {{worker, "Traceback (most recent call last):\nKeyError: 'x'\n"}}}},
      {"SidecarRuns",
       Cause::kSidecarRuns,
       "pod mine-worker-0",
       "container logs runs",
       "--sidecar-containers",
       {.job = Job({True("Running", "TFJobRunning", "TFJob default/mine is running.")}),
        .pods = {Pod(worker,
                     Beside({"logs", "istio-proxy"}, Running(Container(Ended(0, "Completed")))))}}},
      {"BadArguments",
       Cause::kBadArguments,
       "pod mine-worker-0",
       "exit code 2",
       "correct args",
       {.job = Job({True("Failed", "TFJobFailed",
                         "job \"mine\" is failing because \"Worker\" replica(s) failed.")}),
        .pods = {Pod(worker, FailedPod(Container(Ended(2, "Error"))))},
        .logs = {{worker, "--learing_rate: no such flag; did you mean --learning_rate?\n"}}}},
      {"Taint",
       Cause::kTaint,
       "pod mine-worker-0",
       "{dedicated: infra}",
       "toleration",
       {.job = Job(kStarted),
        .pods = {Pod(worker, Unplaced("0/2 nodes are available: 2 node(s) had untolerated taint "
                                      "{dedicated: infra}. preemption: 0/2 nodes are available: 2 "
                                      "Preemption is not helpful for scheduling."))}}},
      {"ServiceAccountMissing",
       Cause::kServiceAccountMissing,
       "TFJob mine",
       "\"robot\" not found",
       "create that service account",
       {.job = Refused("pods \"mine-worker-0\" is forbidden: error looking up service account "
                       "default/robot: serviceaccount \"robot\" not found (HTTP 403 Forbidden)")}},
      {"PriorityClassMissing",
       Cause::kPriorityClassMissing,
       "TFJob mine",
       "name urgent",
       "create that PriorityClass",
       {.job = Refused("pods \"mine-worker-0\" is forbidden: no PriorityClass with name urgent was "
                       "found (HTTP 403 Forbidden)")}},
      {"GangNotAdmitted",
       Cause::kGangNotAdmitted,
       "TFJob mine",
       "volcano admits",
       "minAvailable",
       {.job = Job({True("Queued", "PodGroupPending",
                         "TFJob default/mine is queued: its pods are made once volcano admits its "
                         "PodGroup.")})}},
      {"Suspended",
       Cause::kSuspended,
       "TFJob mine",
       "is suspended",
       "trainyard resume mine",
       {.job = Job({True("Suspended", "TFJobSuspended", "TFJob mine is suspended.")},
                   {{"suspend", true}})}},
      {"Deadline",
       Cause::kDeadline,
       "TFJob mine",
       "longer than specified deadline",
       "activeDeadlineSeconds",
       {.job = Job(
            {True("Failed", "TFJobFailed",
                  "Job mine has failed because it was active longer than specified deadline")})}},
      {"BackoffLimit",
       Cause::kBackoffLimit,
       "TFJob mine",
       "backoff limit",
       "cure why its pods fail",
       {.job =
            Job({True("Failed", "TFJobFailed",
                      "Job mine has failed because it has reached the specified backoff limit")}),
        .events = {Event("TFJob", "mine", "ExitedWithCode",
                         "Pod: default.mine-worker-0 exited with code 1")}}},
      {"Evicted",
       Cause::kEvicted,
       "pod mine-worker-0",
       "low on resource: memory",
       "made again",
       {.job = Job({True("Restarting", "TFJobRestarting",
                         "job mine is restarting because Worker replica(s) failed.")}),
        .pods = {Pod(worker, {{"phase", "Failed"},
                              {"reason", "Evicted"},
                              {"message",
                               "The node was low on resource: memory. Threshold quantity: "
                               "100Mi, available: 80Mi."},
                              {"conditions",
                               {{{"type", "DisruptionTarget"},
                                 {"status", "True"},
                                 {"reason", "TerminationByKubelet"}}}}})}}},
      {"ForeignPod",
       Cause::kNameTaken,
       "TFJob mine",
       "Pod mine-worker-1 belongs to another owner",
       "delete or rename",
       {.job = Job({True("Blocked", "PodNameTaken",
                         "Pod mine-worker-1 belongs to another owner; delete or rename it")})}},
      {"WebhookDenied",
       Cause::kWebhookDenied,
       "TFJob mine",
       "no images from docker.io",
       "whoever keeps that policy",
       {.job =
            Refused("admission webhook \"images.example.com\" denied the request: no images from "
                    "docker.io (HTTP 400 BadRequest)")}},
      {"DnsOfTheCluster",
       Cause::kDns,
       "TFJob mine",
       "coredns-1",
       "k8s-app=kube-dns",
       {.job = Job({True("Running", "TFJobRunning", "TFJob default/mine is running.")}),
        .pods = {Pod(worker, Running(Container({{"running", {{"startedAt", kEarlier}}}})))},
        .dns_pods = {Pod(
            "coredns-1",
            {{"phase", "Running"}, {"conditions", {{{"type", "Ready"}, {"status", "False"}}}}})}}},
      {"DnsInTheLog",
       Cause::kDns,
       "pod mine-worker-0",
       "exit code 138",
       "port 53",
       {.job = Job({True("Restarting", "TFJobRestarting",
                         "job mine is restarting because Worker replica(s) failed.")}),
        .pods = {Pod(worker, FailedPod(Container(Ended(138, "Error"))))},
        .logs = {{worker,
                  "still waiting for mine-ps-0.default.svc:2222 (the name does not resolve), 590 "
                  "s\n"}}}},
      // Beyond the twenty.
      {"Stalled",
       Cause::kStalled,
       "TFJob mine",
       "no new step",
       "trainyard logs mine -f",
       {.job = Job({True("Running", "TFJobRunning", ""),
                    True("Stalled", "TFJobStalled", "no new step since 2026-11-22T06:50:00Z")})}},
      {"NotSeen",
       Cause::kNotSeen,
       "TFJob mine",
       "",
       "operator runs",
       {.job = {{"metadata", {{"name", "mine"}, {"creationTimestamp", kEarlier}}},
                {"spec", {{"tfReplicaSpecs", {{"Worker", {{"replicas", 1}}}}}}}}}},
      {"CpuShortage",
       Cause::kResourceShortage,
       "pod mine-worker-0",
       "Insufficient cpu",
       "requests",
       {.job = Job(kStarted),
        .pods = {Pod(worker, Unplaced("0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient "
                                      "memory. preemption: no victims."))}}},
      {"ConfigMissing",
       Cause::kConfigMissing,
       "pod mine-worker-0",
       "configmap \"settings\" not found",
       "create what",
       {.job = Job(kStarted),
        .pods = {Pod(worker, Pending(Container(Waiting("CreateContainerConfigError",
                                                       "configmap \"settings\" not found"))))}}},
      {"CannotStart",
       Cause::kCannotStart,
       "pod mine-worker-0",
       "executable file not found",
       "command",
       {.job = Job(kStarted),
        .pods = {Pod(worker, FailedPod(Container(Ended(
                                 128, "StartError",
                                 "failed to create containerd task: exec: \"trian\": executable "
                                 "file not found in $PATH"))))}}},
      {"VolumeMount",
       Cause::kVolumeMount,
       "pod mine-worker-0",
       "Multi-Attach error",
       "ReadWriteOnce",
       {.job = Job(kStarted),
        .pods = {Pod(worker, Pending(Container(Waiting("ContainerCreating", ""))))},
        .events = {Event("Pod", worker, "FailedAttachVolume",
                         "Multi-Attach error for volume \"pvc-1\" Volume is already used by pod(s) "
                         "mine-ps-0")}}},
      {"WebhookDown",
       Cause::kWebhookDown,
       "TFJob mine",
       "connection refused",
       "repair",
       {.job = Refused("Internal error occurred: failed calling webhook \"images.example.com\": "
                       "connection refused (HTTP 500 InternalError)")}},
      {"RefusedWithoutCondition",
       Cause::kQuota,
       "TFJob mine",
       "exceeded quota",
       "raise",
       {.job = Job(kStarted),
        .events = {Event(
            "TFJob", "mine", "FailedCreatePod",
            "Error creating: pods \"mine-worker-0\" is forbidden: exceeded quota: q")}}},
  };
}

TEST(DiagnosisTest, NamesTheCause) {
  for (Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    c.picture.now = Now();
    const std::vector<Finding> findings = DiagnoseJob(c.picture);
    ASSERT_FALSE(findings.empty());
    const Finding& first = findings.front();
    EXPECT_EQ(NameOf(first.cause), NameOf(c.cause));
    EXPECT_EQ(first.objects.front(), c.object);
    EXPECT_THAT(first.says, HasSubstr(c.says));
    EXPECT_THAT(first.todo, HasSubstr(c.todo));
    EXPECT_FALSE(first.past);
    EXPECT_THAT(DescribePicture(c.picture),
                AllOf(HasSubstr(std::string(NameOf(c.cause)) + ": "), HasSubstr("to do: ")));
  }
}

Json Node(const Json& labels, const Json& allocatable, const std::vector<Json>& taints) {
  return {{"metadata", {{"name", "n"}, {"labels", labels}}},
          {"spec", {{"taints", taints}}},
          {"status", {{"allocatable", allocatable}}}};
}

TEST(DiagnosisTest, ATaintedNodeThatWouldFitIsTheCauseAndNotTheOthers) {
  const Json gpu = {{"nvidia.com/gpu", "4"}, {"cpu", "8"}};
  const Json none = {{"cpu", "8"}};
  const Json one_taint = {
      {"key", "nvidia.com/gpu"}, {"value", "present"}, {"effect", "NoSchedule"}};
  const std::vector<Json> taint(1, one_taint);
  const auto cause = [](const Json& spec, const std::vector<Json>& nodes, const std::string& rest) {
    const JobPicture picture{
        .job = Job(kStarted),
        .pods = {Pod(
            "mine-worker-0",
            // The scheduler of Kubernetes 1.34 does not name the taint.
            Unplaced("0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 " + rest),
            spec)},
        .nodes = nodes,
        .now = Now()};
    const Finding found = DiagnoseJob(picture).front();
    const bool named =
        found.says.find("(n: nvidia.com/gpu=present:NoSchedule)") != std::string::npos;
    EXPECT_EQ(named, found.cause == Cause::kTaint) << found.says;
    return std::string(NameOf(found.cause));
  };
  Json wants = {{"containers", Json::array({Json{{"name", "tensorflow"}}})}};
  wants["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 1;
  const std::string few = "Insufficient nvidia.com/gpu.";
  EXPECT_EQ(cause(wants, {Node({}, gpu, taint), Node({}, none, {})}, few), "Taint");
  EXPECT_EQ(cause(wants, {Node({}, gpu, taint), Node({}, gpu, {})}, few), "GpuShortage");
  EXPECT_EQ(cause(wants, {Node({}, none, taint), Node({}, none, {})}, few), "GpuShortage");
  EXPECT_EQ(cause(wants, {}, few), "GpuShortage");
  Json too_many = wants;
  too_many["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 8;
  EXPECT_EQ(cause(too_many, {Node({}, gpu, taint), Node({}, none, {})}, few), "GpuShortage");
  Json too_many_at_first = wants;
  too_many_at_first["initContainers"] = Json::array({too_many["containers"][0]});
  EXPECT_EQ(cause(too_many_at_first, {Node({}, gpu, taint), Node({}, none, {})}, few),
            "GpuShortage");
  wants["tolerations"] = Json::array({Json{{"key", "nvidia.com/gpu"}, {"operator", "Exists"}}});
  EXPECT_EQ(cause(wants, {Node({}, gpu, taint), Node({}, none, {})}, few), "GpuShortage");

  const Json selects = {{"nodeSelector", {{"pool", "a"}}}};
  const std::string other = "node(s) didn't match Pod's node affinity/selector.";
  const Json pool_a = {{"pool", "a"}};
  const Json pool_b = {{"pool", "b"}};
  EXPECT_EQ(cause(selects, {Node(pool_a, none, taint), Node({}, none, {})}, other), "Taint");
  EXPECT_EQ(cause(selects, {Node(pool_b, none, taint), Node({}, none, {})}, other), "NodeSelector");
}

TEST(DiagnosisTest, BehindTheBackoffLimitStandsWhyThePodFailed) {
  for (Case& c : Cases()) {
    if (c.cause != Cause::kBackoffLimit) continue;
    c.picture.now = Now();
    const std::vector<Finding> findings = DiagnoseJob(c.picture);
    ASSERT_THAT(findings, SizeIs(2));
    EXPECT_THAT(findings[1].says, HasSubstr("mine-worker-0 exited with code 1"));
  }
}

TEST(DiagnosisTest, PodsWithOneCauseAreOneFinding) {
  JobPicture picture{.job = Job(kStarted), .now = Now()};
  for (const char* name : {"mine-ps-0", "mine-worker-0", "mine-worker-1"}) {
    picture.pods.push_back(
        Pod(name, Unplaced("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")));
  }
  const std::vector<Finding> findings = DiagnoseJob(picture);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].objects,
              ElementsAre("pod mine-ps-0", "pod mine-worker-0", "pod mine-worker-1"));
}

TEST(DiagnosisTest, SeveralObstaclesOfOneConditionAreSeveralFindings) {
  const JobPicture picture{
      .job = Job({True("Blocked", "FailedCreatePod",
                       "Error creating: pods \"mine-ps-0\" is forbidden: exceeded quota: q; Pod "
                       "mine-worker-1 belongs to another owner; delete or rename it")}),
      .now = Now()};
  const std::vector<Finding> findings = DiagnoseJob(picture);
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[0].cause, Cause::kQuota);
  EXPECT_EQ(findings[1].cause, Cause::kNameTaken);
}

TEST(DiagnosisTest, NothingStandsInTheWayOfAJobThatRunsOrHasSucceeded) {
  JobPicture picture{
      .job = Job({True("Running", "TFJobRunning", "")}),
      .pods = {Pod("mine-worker-0", Running(Container({{"running", Json::object()}})))},
      .now = Now()};
  EXPECT_THAT(DiagnoseJob(picture), IsEmpty());
  EXPECT_THAT(DescribePicture(picture), HasSubstr("nothing stands in its way"));
  picture.job = Job({True("Succeeded", "TFJobSucceeded", "")});
  picture.pods = {Pod("mine-worker-1", FailedPod(Container(Ended(143, "Error"))))};
  EXPECT_THAT(DiagnoseJob(picture), IsEmpty());
}

TEST(DiagnosisTest, WhatIsOverIsToldAsPast) {
  const JobPicture picture{
      .job = Job({True("Running", "TFJobRunning", "")}),
      .pods = {Pod("mine-worker-0",
                   Running(Container({{"running", Json::object()}}, Ended(137, "OOMKilled"), 1)))},
      .events = {Event("Pod", "mine-ps-0", "Evicted", "The node was low on resource: memory.")},
      .now = Now()};
  const std::vector<Finding> findings = DiagnoseJob(picture);
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_TRUE(findings[0].past && findings[1].past);
  EXPECT_THAT(DescribePicture(picture),
              AllOf(HasSubstr("nothing stands in its way"), HasSubstr("What happened before"),
                    Not(HasSubstr("to do"))));
}

TEST(DiagnosisTest, ARefusalThatWasFollowedByTheCreationIsOver) {
  const JobPicture picture{
      .job = Job({True("Running", "TFJobRunning", "")}),
      .events = {Event("TFJob", "mine", kReasonFailedCreatePod, "exceeded quota", kEarlier),
                 Event("TFJob", "mine", kReasonCreatedPod, "Created pod: mine-ps-0", kRecently)},
      .now = Now()};
  EXPECT_THAT(DiagnoseJob(picture), IsEmpty());
}

TEST(DiagnosisTest, PodsThatAreNotMadeAreMissedAfterAWhile) {
  JobPicture picture{.job = Job(kStarted), .now = Now()};
  picture.job["status"]["startTime"] = "2026-11-22T06:59:45Z";
  EXPECT_THAT(DiagnoseJob(picture), IsEmpty());
  picture.job["status"]["startTime"] = kRecently;
  picture.pods = {Pod("mine-ps-0", Running(Container({{"running", Json::object()}})))};
  const std::vector<Finding> findings = DiagnoseJob(picture);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].cause, Cause::kPodsMissing);
  EXPECT_EQ(findings[0].says, "2 pods are missing");
  picture.job["spec"]["startupPolicy"] = {{"startupPolicyOrder", "InOrder"}};
  picture.pods[0]["status"]["conditions"][0]["status"] = "False";
  const std::vector<Finding> in_order = DiagnoseJob(picture);
  ASSERT_THAT(in_order, SizeIs(1));
  EXPECT_EQ(in_order[0].cause, Cause::kStartOrder);
  EXPECT_EQ(in_order[0].says, "2 pods are missing; not ready: mine-ps-0");
}

TEST(DiagnosisTest, APodThatWasPendingForTooLong) {
  const JobPicture picture{
      .job =
          Job({True("Failed", "TFJobFailed",
                    "TFJob default/mine has failed because pod mine-worker-1 was pending for 300 "
                    "s (Unschedulable: 0/3 nodes are available): rule 0 of "
                    "spec.runPolicy.failurePolicy")}),
      .now = Now()};
  const std::vector<Finding> findings = DiagnoseJob(picture);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].cause, Cause::kPendingTooLong);
  EXPECT_THAT(findings[0].says, HasSubstr("0/3 nodes"));
}

TEST(DiagnosisTest, TakesAnyJson) {
  for (const Json& odd :
       {Json(nullptr), Json("x"), Json::array({1}), Json{{"status", 3}},
        Json{{"metadata", {{"name", 1}}}, {"spec", "x"}, {"status", {{"conditions", "x"}}}},
        Json{{"status", {{"containerStatuses", {1, {{"state", 2}}}}}}}}) {
    const JobPicture picture{.job = odd,
                             .pods = {odd, odd},
                             .events = {odd},
                             .claims = {odd},
                             .claims_known = true,
                             .dns_pods = {odd},
                             .now = Now()};
    EXPECT_THAT(DescribePicture(picture), HasSubstr("TFJob"));
  }
}

TEST(DiagnosisTest, OfCalls) {
  const struct {
    absl::Status status;
    Cause cause;
  } cases[] = {
      {absl::UnavailableError("https://10.0.0.1:6443: Failed to connect to any resolved endpoint: "
                              "Connection refused"),
       Cause::kApiServerDown},
      {absl::DeadlineExceededError("https://10.0.0.1:6443: no answer (10s)"),
       Cause::kApiServerDown},
      {absl::UnavailableError("https://api.example: Error resolving address: Host not found"),
       Cause::kApiServerUnknownHost},
      {absl::UnavailableError(
           "Error in SSL handshake: the server's certificate is not accepted for x"),
       Cause::kApiServerUntrusted},
      {absl::UnauthenticatedError("Unauthorized"), Cause::kNotAllowed},
      {absl::PermissionDeniedError("tfjobs is forbidden"), Cause::kNotAllowed},
  };
  for (const auto& c : cases) {
    const Finding finding = DiagnoseCall(c.status, "https://10.0.0.1:6443, kubeconfig /k");
    EXPECT_EQ(NameOf(finding.cause), NameOf(c.cause)) << c.status;
    EXPECT_THAT(finding.says, HasSubstr("kubeconfig /k"));
    EXPECT_THAT(finding.todo, Not(IsEmpty()));
  }
}

}  // namespace
}  // namespace tfjob
