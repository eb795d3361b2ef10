// What `describe` asks the cluster for.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "base/status_macros.h"
#include "operator/api/names.h"
#include "operator/cli/cluster/describe.h"
#include "operator/cli/cluster/findings.h"

namespace tfjob {
namespace {

constexpr kube::Resource kNodes{"v1", "nodes"};  // of no namespace
constexpr int kMaxLogs = 5;
constexpr int kLogLines = 5;
constexpr size_t kMaxLogBytes = 4000;

bool EndedBadly(const Json& state) { return IntAt(base::At(state, "terminated"), "exitCode") != 0; }

// The last lines of what failed, or, where nothing failed, of what runs.
void AddLogs(const Cluster& cluster, bool of_running, JobPicture* picture) {
  for (const Json& pod : picture->pods) {
    const Json& container = ContainerStatus(pod, kContainerName);
    const bool failed = EndedBadly(base::At(container, "state"));
    const bool failed_before = EndedBadly(base::At(container, "lastState"));
    const bool runs = base::At(container, "state", "running").is_object();
    if (!failed && !failed_before && !(runs && of_running)) continue;
    if (picture->logs.size() >= kMaxLogs || picture->logs.contains(ObjectName(pod))) continue;
    std::string text;
    const kube::LogOptions options{.container = kContainerName,
                                   .previous = !failed && failed_before,
                                   .tail_lines = kLogLines,
                                   .idle_timeout = absl::Seconds(3)};
    const auto add = [&](std::string_view piece) {
      text.append(piece);
      return text.size() < kMaxLogBytes;
    };
    if (cluster.client->Logs(cluster.ns, ObjectName(pod), options, add, {}).ok() && !text.empty()) {
      picture->logs[ObjectName(pod)] = std::move(text);
    }
  }
}

bool UsesClaims(const std::vector<Json>& pods) {
  for (const Json& pod : pods) {
    for (const Json& volume : base::ArrayAt(base::At(pod, "spec"), "volumes")) {
      if (base::At(volume, "persistentVolumeClaim").is_object()) return true;
    }
  }
  return false;
}

bool IsUnplaced(const Json& pod) {
  return base::StringAt(ConditionOf(pod, "PodScheduled"), "status") == "False";
}

}  // namespace

absl::StatusOr<JobPicture> TakePicture(const Cluster& cluster, const std::string& name) {
  JobPicture picture;
  ASSIGN_OR_RETURN(picture.job, GetJob(cluster, name));
  ASSIGN_OR_RETURN(picture.pods, PodsOfJob(cluster, name));
  // From here on whoever may not read a thing still gets the rest.
  absl::StatusOr<std::vector<Json>> events = ListAll(cluster, kube::kEvents, cluster.ns);
  if (events.ok()) picture.events = *std::move(events);
  if (UsesClaims(picture.pods)) {
    absl::StatusOr<std::vector<Json>> claims = ListAll(cluster, kube::kClaims, cluster.ns);
    picture.claims_known = claims.ok();
    if (claims.ok()) picture.claims = *std::move(claims);
  }
  if (std::any_of(picture.pods.begin(), picture.pods.end(), IsUnplaced)) {
    absl::StatusOr<std::vector<Json>> nodes = ListAll(cluster, kNodes, "");
    if (nodes.ok()) picture.nodes = *std::move(nodes);
  }
  picture.now = cluster.now();
  if (IsTrue(picture.job, kSucceeded)) return picture;
  AddLogs(cluster, /*of_running=*/false, &picture);
  const std::vector<Finding> findings = DiagnoseJob(picture);
  const bool told = std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return !finding.past && finding.cause != Cause::kClusterTrouble &&
           finding.cause != Cause::kStalled;
  });
  if (told || IsTrue(picture.job, kFailed)) return picture;
  AddLogs(cluster, /*of_running=*/true, &picture);
  absl::StatusOr<std::vector<Json>> dns =
      ListAll(cluster, kube::kPods, "kube-system", "k8s-app=kube-dns");
  if (dns.ok()) picture.dns_pods = *std::move(dns);
  return picture;
}

}  // namespace tfjob
