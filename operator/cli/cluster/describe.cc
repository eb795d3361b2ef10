#include "operator/cli/cluster/describe.h"

#include <algorithm>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/exit_codes.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/cli/cluster/findings.h"
#include "operator/cli/cluster/job_row.h"
#include "operator/cli/cluster/output.h"

namespace tfjob {
namespace {

constexpr size_t kMaxObjects = 5;
constexpr size_t kMaxEvents = 10;

void PrintHead(const JobPicture& picture, std::ostream& out) {
  const Json& job = picture.job;
  const Json& metadata = base::At(job, "metadata");
  out << "TFJob " << base::StringAt(metadata, "namespace") << "/" << ObjectName(job) << ": "
      << StateOf(job) << ", " << AgeText(metadata, "creationTimestamp", picture.now) << " old, "
      << RestartsOf(job) << " restarts\n";
  const std::string progress = ProgressOf(job);
  if (!progress.empty()) out << "  progress: " << progress << "\n";
  for (const ReplicaCounts& counts : ReplicasOf(job)) {
    out << "  " << LowerReplicaType(counts.type) << ": " << counts.wanted << " wanted, "
        << counts.running << " running";
    if (counts.succeeded > 0) out << ", " << counts.succeeded << " succeeded";
    out << "\n";
  }
}

// "pod a (also pod b and 3 more)".
std::string ObjectsText(const std::vector<std::string>& objects) {
  if (objects.size() == 1) return objects.front();
  const size_t shown = std::min(objects.size(), kMaxObjects);
  std::string more = absl::StrJoin(objects.begin() + 1, objects.begin() + shown, ", ");
  if (shown < objects.size()) absl::StrAppend(&more, " and ", objects.size() - shown, " more");
  return absl::StrCat(objects.front(), " (also ", more, ")");
}

void PrintFinding(const Finding& finding, std::ostream& out) {
  out << "  " << NameOf(finding.cause) << ": " << ObjectsText(finding.objects) << " "
      << finding.what << "\n";
  if (!finding.says.empty()) out << "    the cluster says: " << finding.says << "\n";
  if (!finding.log.empty()) {
    out << "    its log ends:\n";
    for (const auto& line : absl::StrSplit(finding.log, '\n', absl::SkipEmpty())) {
      out << "      " << std::string(line) << "\n";
    }
  }
  if (!finding.past) out << "    to do: " << finding.todo << "\n";
}

std::string Heading(const Json& job) {
  if (IsTrue(job, kFailed)) return "Why it failed:";
  if (IsTrue(job, kSuspended)) return "Why it does not run:";
  return IsTrue(job, kRunning) ? "What stands in its way:" : "Why it does not run:";
}

// Where there is no finding.
std::string Plain(const Json& job) {
  if (IsTrue(job, kSucceeded)) return "It has succeeded.";
  if (IsTrue(job, kRunning)) return "It runs, and nothing stands in its way.";
  return "It starts: nothing stands in its way so far.";
}

void PrintFindings(const JobPicture& picture, std::ostream& out) {
  const std::vector<Finding> findings = DiagnoseJob(picture);
  const bool well = findings.empty() || findings.front().past;
  out << "\n" << (well ? Plain(picture.job) : Heading(picture.job)) << "\n";
  bool past = false;
  for (const Finding& finding : findings) {
    if (finding.past && !past) out << "\nWhat happened before:\n";
    past = finding.past;
    PrintFinding(finding, out);
  }
}

// "Running", or why a container does not.
std::string ContainerText(const Json& pod) {
  for (const Json& container : base::ArrayAt(base::At(pod, "status"), "containerStatuses")) {
    const Json& state = base::At(container, "state");
    std::string waiting = base::StringAt(base::At(state, "waiting"), "reason");
    if (!waiting.empty()) return waiting;
    const Json& ended = base::At(state, "terminated");
    if (!ended.is_object()) continue;
    return absl::StrCat(base::StringAt(ended, "reason"), " (exit code ",
                        base::Scalar(base::At(ended, "exitCode")), ")");
  }
  std::string reason = base::StringAt(base::At(pod, "status"), "reason");
  if (!reason.empty()) return reason;
  return base::StringAt(ConditionOf(pod, "PodScheduled"), "reason");
}

std::string PhaseOf(const Json& pod) {
  if (!base::StringAt(base::At(pod, "metadata"), "deletionTimestamp").empty()) return "Terminating";
  return base::StringAt(base::At(pod, "status"), "phase");
}

int RestartsOfPod(const Json& pod) {
  int restarts = 0;
  for (const Json& container : base::ArrayAt(base::At(pod, "status"), "containerStatuses")) {
    restarts += IntAt(container, "restartCount");
  }
  return restarts;
}

void PrintPods(const JobPicture& picture, std::ostream& out) {
  if (picture.pods.empty()) return;
  out << "\nPods:\n";
  std::vector<std::vector<std::string>> rows = {
      {"  NAME", "PHASE", "READY", "RESTARTS", "NODE", "AGE", "STATE"}};
  for (const Json& pod : picture.pods) {
    rows.push_back(
        {"  " + ObjectName(pod), PhaseOf(pod), IsTrue(pod, "Ready") ? "yes" : "no",
         absl::StrCat(RestartsOfPod(pod)), base::StringAt(base::At(pod, "spec"), "nodeName"),
         AgeText(base::At(pod, "metadata"), "creationTimestamp", picture.now), ContainerText(pod)});
  }
  PrintTable(rows, out);
}

void PrintEvents(const JobPicture& picture, std::ostream& out) {
  std::vector<const Json*> own;
  for (const Json& event : picture.events) {
    const Json& about = base::At(event, "involvedObject");
    const std::string name = base::StringAt(about, "name");
    const bool of_job = base::StringAt(about, "kind") == kKind && name == ObjectName(picture.job);
    const bool of_pod = std::any_of(picture.pods.begin(), picture.pods.end(), [&](const Json& pod) {
      return base::StringAt(about, "kind") == "Pod" && name == ObjectName(pod);
    });
    if (of_job || of_pod) own.push_back(&event);
  }
  if (own.empty()) return;
  std::sort(own.begin(), own.end(), [](const Json* a, const Json* b) {
    const absl::Time time_a = TimeOfEvent(*a);
    const absl::Time time_b = TimeOfEvent(*b);
    return time_a != time_b ? time_a < time_b : a < b;  // else in the server's order
  });
  if (own.size() > kMaxEvents) own.erase(own.begin(), own.end() - kMaxEvents);
  out << "\nEvents, the newest last:\n";
  std::vector<std::vector<std::string>> rows;
  for (const Json* event : own) {
    rows.push_back({"  " + ShortDuration(picture.now - TimeOfEvent(*event)),
                    base::StringAt(base::At(*event, "involvedObject"), "name"),
                    base::StringAt(*event, "reason"), base::StringAt(*event, "message")});
  }
  PrintTable(rows, out);
}

}  // namespace

std::string DescribePicture(const JobPicture& picture) {
  std::ostringstream out;
  PrintHead(picture, out);
  PrintFindings(picture, out);
  PrintPods(picture, out);
  PrintEvents(picture, out);
  return out.str();
}

Json PictureJson(const JobPicture& picture) {
  Json replicas = Json::array();
  for (const ReplicaCounts& counts : ReplicasOf(picture.job)) {
    replicas.push_back({{"type", CanonicalReplicaType(counts.type)},
                        {"wanted", counts.wanted},
                        {"running", counts.running},
                        {"succeeded", counts.succeeded}});
  }
  Json findings = Json::array();
  for (const Finding& finding : DiagnoseJob(picture)) {
    findings.push_back({{"cause", std::string(NameOf(finding.cause))},
                        {"objects", finding.objects},
                        {"what", finding.what},
                        {"says", finding.says},
                        {"todo", finding.todo},
                        {"log", finding.log},
                        {"past", finding.past}});
  }
  Json pods = Json::array();
  for (const Json& pod : picture.pods) {
    pods.push_back({{"name", ObjectName(pod)},
                    {"phase", PhaseOf(pod)},
                    {"ready", IsTrue(pod, "Ready")},
                    {"restarts", RestartsOfPod(pod)},
                    {"node", base::StringAt(base::At(pod, "spec"), "nodeName")},
                    {"state", ContainerText(pod)}});
  }
  return {{"state", StateOf(picture.job)},       {"progress", ProgressOf(picture.job)},
          {"restarts", RestartsOf(picture.job)}, {"replicas", std::move(replicas)},
          {"findings", std::move(findings)},     {"pods", std::move(pods)},
          {"job", WholeJob(picture.job)}};
}

int DescribeJob(const Cluster& cluster, const std::string& name, std::ostream& out,
                std::ostream& err) {
  const absl::StatusOr<JobPicture> picture = TakePicture(cluster, name);
  if (!picture.ok()) return Fail(cluster, picture.status(), err);
  if (IsStructured(cluster)) {
    PrintObject(cluster, PictureJson(*picture), out);
  } else {
    out << DescribePicture(*picture);
  }
  return base::kExitOk;
}

}  // namespace tfjob
