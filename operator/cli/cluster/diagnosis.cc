#include "operator/cli/cluster/diagnosis.h"

#include <algorithm>
#include <array>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/cli/cluster/findings.h"
#include "operator/cli/cluster/job_row.h"

namespace tfjob {
namespace {

constexpr absl::Duration kTimeToMakePods = absl::Seconds(30);

// Equal words of two pods differ in the pods' names.
bool Same(const Finding& a, const Finding& b) {
  if (a.cause != b.cause || a.past != b.past || a.objects.empty() || b.objects.empty())
    return false;
  const auto plain = [](const Finding& finding) {
    const std::string& object = finding.objects.front();
    const std::string name = object.substr(object.find(' ') + 1);
    return absl::StrReplaceAll(finding.says, {{name, "*"}});
  };
  return plain(a) == plain(b);
}

std::vector<Finding> Merge(std::vector<Finding> findings, const std::string& job) {
  std::vector<Finding> out;
  for (Finding& finding : findings) {
    const auto same =
        std::find_if(out.begin(), out.end(), [&](const Finding& f) { return Same(f, finding); });
    if (same == out.end()) {
      out.push_back(std::move(finding));
    } else {
      same->objects.push_back(finding.objects.front());
    }
  }
  for (Finding& finding : out) {
    finding.todo = absl::StrReplaceAll(finding.todo, {{"JOB", job}});
  }
  std::vector<Finding> ordered;
  for (const bool past : {false, true}) {
    for (const Finding& finding : out) {
      if (finding.past == past) ordered.push_back(finding);
    }
  }
  return ordered;
}

// Words of a job that only say that a pod has failed, where the pod says why.
void DropVague(std::vector<Finding>& findings) {
  const auto vague = [](const Finding& finding) { return finding.cause == Cause::kFailed; };
  if (!std::all_of(findings.begin(), findings.end(), vague)) std::erase_if(findings, vague);
}

bool IsReady(const Json& pod) { return IsTrue(pod, "Ready"); }

// Pods that the cluster took away and that are gone or made anew: their events tell of it.
void AddGonePods(const JobPicture& picture, std::vector<Finding>& findings) {
  std::set<std::string> uids;
  for (const Json& pod : picture.pods)
    uids.insert(base::StringAt(base::At(pod, "metadata"), "uid"));
  std::set<std::string> told;
  for (const Json& event : picture.events) {
    const Json& about = base::At(event, "involvedObject");
    const std::string name = base::StringAt(about, "name");
    const std::string reason = base::StringAt(event, "reason");
    const std::string prefix = ObjectName(picture.job) + "-";
    if (base::StringAt(about, "kind") != "Pod" || !name.starts_with(prefix)) continue;
    if (reason != "Evicted" && reason != "Preempted" && reason != "TaintManagerEviction") continue;
    bool of_a_type = false;
    for (const auto& [type, replica] : base::At(picture.job, "spec", "tfReplicaSpecs").items()) {
      of_a_type = of_a_type || name.starts_with(absl::StrCat(prefix, LowerReplicaType(type), "-"));
    }
    if (!of_a_type || uids.contains(base::StringAt(about, "uid")) || !told.insert(name).second) {
      continue;
    }
    Finding gone =
        MakeFinding(Cause::kEvicted, absl::StrCat("pod ", name), base::StringAt(event, "message"));
    gone.past = !IsTrue(picture.job, kRestarting) && !IsTrue(picture.job, kFailed);
    findings.push_back(std::move(gone));
  }
}

// Where nothing else stands in the way and names do not resolve, it is the cluster's DNS.
void AddDns(const JobPicture& picture, std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    const bool vague = finding.cause == Cause::kClusterTrouble || finding.cause == Cause::kStalled;
    if (!finding.past && !vague) return;
  }
  std::vector<std::string> objects;
  std::string log;
  for (const Json& pod : picture.pods) {
    const auto found = picture.logs.find(ObjectName(pod));
    if (found == picture.logs.end() || !TellsOfDns(found->second)) continue;
    objects.push_back(absl::StrCat("pod ", ObjectName(pod)));
    if (log.empty()) log = found->second;
  }
  const bool down = !picture.dns_pods.empty() &&
                    std::none_of(picture.dns_pods.begin(), picture.dns_pods.end(), IsReady);
  if (objects.empty() && !down) return;
  Finding dns = MakeFinding(Cause::kDns, absl::StrCat("TFJob ", ObjectName(picture.job)),
                            down ? absl::StrCat("no pod of the cluster's DNS is ready (",
                                                ObjectName(picture.dns_pods.front()), ")")
                                 : "");
  if (!objects.empty()) dns.objects = std::move(objects);
  dns.log = std::move(log);
  findings.insert(findings.begin(), std::move(dns));
}

// Those that run without being ready, "j-ps-0, j-ps-1".
std::string UnreadyPods(const JobPicture& picture) {
  std::vector<std::string> names;
  for (const Json& pod : picture.pods) {
    if (base::StringAt(base::At(pod, "status"), "phase") != "Running") continue;
    if (!IsReady(pod)) names.push_back(ObjectName(pod));
  }
  return absl::StrJoin(names, ", ");
}

// A refusal that the operator takes for a passing one leaves no trace on the job.
void AddMissingPods(const JobPicture& picture, std::vector<Finding>& findings) {
  const auto started = base::TimeAt(base::At(picture.job, "status"), "startTime");
  if (!started || picture.now - *started < kTimeToMakePods) return;
  for (const Finding& finding : findings) {
    if (!finding.past) return;
  }
  int missing = 0;
  for (const ReplicaCounts& counts : ReplicasOf(picture.job)) {
    missing += counts.wanted - counts.succeeded;
  }
  for (const Json& pod : picture.pods) {
    if (base::StringAt(base::At(pod, "status"), "phase") != "Succeeded") --missing;
  }
  if (missing <= 0) return;
  const std::string unready = UnreadyPods(picture);
  const bool waits = base::StringAt(base::At(picture.job, "spec", "startupPolicy"),
                                    "startupPolicyOrder") == kInOrder &&
                     !unready.empty();
  findings.insert(findings.begin(),
                  MakeFinding(waits ? Cause::kStartOrder : Cause::kPodsMissing,
                              absl::StrCat("TFJob ", ObjectName(picture.job)),
                              absl::StrCat(missing, " pods are missing",
                                           waits ? absl::StrCat("; not ready: ", unready) : "")));
}

}  // namespace

std::vector<Finding> DiagnoseJob(const JobPicture& picture) {
  if (IsTrue(picture.job, kSucceeded)) return {};
  std::vector<Finding> findings = FindingsOfJob(picture);
  const bool suspended = !findings.empty() && findings.front().cause == Cause::kSuspended;
  if (suspended)
    return Merge(findings, ObjectName(picture.job));  // its pods go, or are gone: no news
  for (const Json& pod : picture.pods) {
    for (Finding& finding : FindingsOfPod(pod, picture)) findings.push_back(std::move(finding));
  }
  AddGonePods(picture, findings);
  if (!IsOver(picture.job)) {
    AddDns(picture, findings);
    AddMissingPods(picture, findings);
  }
  DropVague(findings);
  return Merge(std::move(findings), ObjectName(picture.job));
}

const Json& NewestEvent(const JobPicture& picture, std::string_view kind, std::string_view name,
                        const std::vector<std::string_view>& reasons) {
  const Json* newest = &base::At(picture.job, "");
  for (const Json& event : picture.events) {
    const Json& about = base::At(event, "involvedObject");
    if (base::StringAt(about, "kind") != kind || base::StringAt(about, "name") != name) continue;
    const std::string reason = base::StringAt(event, "reason");
    const bool wanted =
        reasons.empty() || std::find(reasons.begin(), reasons.end(), reason) != reasons.end();
    if (wanted && (newest->is_null() || TimeOfEvent(event) >= TimeOfEvent(*newest)))
      newest = &event;
  }
  return *newest;
}

absl::Time TimeOfEvent(const Json& event) {
  for (const char* key : {"lastTimestamp", "eventTime", "firstTimestamp"}) {
    if (const auto time = base::TimeAt(event, key)) return *time;
  }
  return base::TimeAt(base::At(event, "metadata"), "creationTimestamp")
      .value_or(absl::InfinitePast());
}

int IntAt(const Json& object, std::string_view key, int otherwise) {
  const Json& value = base::At(object, key);
  return value.is_number_integer() ? value.get<int>() : otherwise;
}

std::string MessageOf(const Json& object) { return base::StringAt(object, "message"); }

std::string ObjectName(const Json& object) {
  return base::StringAt(base::At(object, "metadata"), "name");
}

const Json& ConditionOf(const Json& object, std::string_view type) {
  for (const Json& condition : base::ArrayAt(base::At(object, "status"), "conditions")) {
    if (base::StringAt(condition, "type") == type) return condition;
  }
  return base::At(object, "");
}

bool IsTrue(const Json& object, std::string_view condition) {
  return base::StringAt(ConditionOf(object, condition), "status") == "True";
}

bool IsOver(const Json& job) { return IsTrue(job, kSucceeded) || IsTrue(job, kFailed); }

const Json& ContainerStatus(const Json& pod, std::string_view name) {
  for (const char* key : {"containerStatuses", "initContainerStatuses"}) {
    for (const Json& status : base::ArrayAt(base::At(pod, "status"), key)) {
      if (base::StringAt(status, "name") == name) return status;
    }
  }
  return base::At(pod, "");
}

bool Says(const std::string& text, std::string_view part) {
  const auto same = [](char a, char b) { return absl::ascii_tolower(a) == absl::ascii_tolower(b); };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

bool TellsOfDns(const std::string& text) {
  constexpr std::array<std::string_view, 6> kPhrases = {
      "name does not resolve",     "Temporary failure in name resolution",
      "Name or service not known", "DNS resolution failed",
      "Could not resolve host",    "nodename nor servname"};
  return std::any_of(kPhrases.begin(), kPhrases.end(),
                     [&](std::string_view phrase) { return Says(text, phrase); });
}

Finding DiagnoseCall(const absl::Status& status, const std::string& where) {
  const std::string text(status.message());
  const std::string says = where.empty() ? text : absl::StrCat(text, " [", where, "]");
  const std::string object = "this call";
  if (absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status)) {
    return MakeFinding(Cause::kNotAllowed, object, says);
  }
  if (Says(text, "certificate is not accepted")) {
    return MakeFinding(Cause::kApiServerUntrusted, object, says);
  }
  const bool unknown_host = Says(text, "resolving address") || Says(text, "Host not found") ||
                            Says(text, "Name or service not known");
  if (unknown_host) return MakeFinding(Cause::kApiServerUnknownHost, object, says);
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) {
    return MakeFinding(Cause::kApiServerDown, object, says);
  }
  return MakeFinding(Cause::kRefused, object, says);
}

}  // namespace tfjob
