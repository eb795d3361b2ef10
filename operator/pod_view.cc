#include "operator/pod_view.h"

#include <array>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/api/task_tls.h"

namespace tfjob {
namespace {

int Number(const Json& object, const char* key) {
  const Json& value = base::At(object, key);
  return value.is_number_integer() ? value.get<int>() : 0;
}

// What pods and services have in common.
template <typename View>
void ReadMetadata(const Json& object, View& view) {
  const Json& meta = base::At(object, "metadata");
  view.name = base::StringAt(meta, "name");
  view.uid = base::StringAt(meta, "uid");
  view.deletion_time = base::TimeAt(meta, "deletionTimestamp");
  const Json& labels = base::At(meta, "labels");
  view.job_uid = base::StringAt(labels, kLabelJobUid);
  view.type = base::StringAt(labels, kLabelReplicaType);
  int index = -1;
  if (absl::SimpleAtoi(base::StringAt(labels, kLabelReplicaIndex), &index) && index >= 0)
    view.index = index;
}

const Json& Controller(const Json& object) {
  const Json& owners = base::At(base::At(object, "metadata"), "ownerReferences");
  if (owners.is_array()) {
    for (const Json& owner : owners) {
      if (base::At(owner, "controller") == true) return owner;
    }
  }
  return base::At(owners, "");
}

PodPhase PhaseOf(const std::string& name) {
  for (const PodPhase phase :
       {PodPhase::kRunning, PodPhase::kSucceeded, PodPhase::kFailed, PodPhase::kUnknown}) {
    if (name == PhaseName(phase)) return phase;
  }
  return PodPhase::kPending;
}

// What the containers of `pod` but its sidecars have come to; nullopt where it has no sidecar, or
// one of the others runs or will be started again.
std::optional<PodPhase> PhaseWithout(const std::set<std::string>& sidecars, const Json& pod,
                                     PodPhase phase) {
  if (sidecars.empty() || (phase != PodPhase::kRunning && phase != PodPhase::kFailed)) return {};
  const std::string policy = base::StringAt(base::At(pod, "spec"), "restartPolicy");
  const bool runs = phase == PodPhase::kRunning;
  if (runs && policy == kRestartAlways) return {};
  bool has_sidecar = false;
  bool has_ended = false;
  bool failed = false;
  for (const Json& status : base::ArrayAt(base::At(pod, "status"), "containerStatuses")) {
    if (sidecars.contains(base::StringAt(status, "name"))) {
      has_sidecar = true;
      continue;
    }
    const Json& terminated = base::At(status, "state", "terminated");
    if (!terminated.is_object()) return {};
    const bool well = Number(terminated, "exitCode") == 0;
    if (!well && runs && policy == kRestartOnFailure) return {};
    has_ended = true;
    failed = failed || !well;
  }
  if (!has_sidecar || !has_ended) return {};
  return failed ? PodPhase::kFailed : PodPhase::kSucceeded;
}

bool IsTrouble(const std::string& waiting_reason) {
  return !waiting_reason.empty() && waiting_reason != "ContainerCreating" &&
         waiting_reason != "PodInitializing";
}

// The last 1 KiB, cut where a character begins: status must be valid UTF-8.
std::string EndOf(std::string text) {
  constexpr size_t kMaxBytes = 1024;
  if (text.size() <= kMaxBytes) return text;
  size_t begin = text.size() - kMaxBytes;
  while (begin < text.size() && (text[begin] & 0xc0) == 0x80) ++begin;
  return text.substr(begin);
}

void ReadEnd(const Json& terminated, PodView& view) {
  view.end_reason = base::StringAt(terminated, "reason");
  view.end_message = EndOf(base::StringAt(terminated, "message"));
  view.end_time = base::TimeAt(terminated, "finishedAt");
}

void ReadContainers(const Json& statuses, PodView& view) {
  if (!statuses.is_array()) return;
  for (const Json& status : statuses) {
    view.restart_count += Number(status, "restartCount");
    const Json& state = base::At(status, "state");
    const Json& terminated = base::At(state, "terminated");
    if (base::StringAt(status, "name") == kContainerName && terminated.is_object()) {
      view.exit_code = Number(terminated, "exitCode");
      if (view.phase == PodPhase::kFailed) ReadEnd(terminated, view);
    }
    const Json& waiting = base::At(state, "waiting");
    if (const std::string reason = base::StringAt(waiting, "reason");
        view.waiting_reason.empty() && IsTrouble(reason)) {
      view.waiting_reason = reason;
      view.waiting_message = absl::StrCat("container ", base::StringAt(status, "name"),
                                          " waiting message: ", base::StringAt(waiting, "message"));
    }
  }
}

void ReadConditions(const Json& conditions, PodView& view) {
  if (!conditions.is_array()) return;
  for (const Json& condition : conditions) {
    const std::string type = base::StringAt(condition, "type");
    const std::string status = base::StringAt(condition, "status");
    if (type == "Ready") view.ready = status == kTrue;
    if (type == kDisruptionTarget && status == kTrue) view.disrupted = true;
    if (view.phase == PodPhase::kFailed) view.failed_conditions[type] = status;
    if (type == "PodScheduled" && status == kFalse && view.waiting_reason.empty()) {
      view.waiting_reason = base::StringAt(condition, "reason");
      view.waiting_message =
          absl::StrCat("condition message: ", base::StringAt(condition, "message"));
    }
  }
}

}  // namespace

PodView PodViewOf(const Json& pod, const std::set<std::string>& sidecars) {
  PodView view;
  ReadMetadata(pod, view);
  view.creation_time = base::TimeAt(base::At(pod, "metadata"), "creationTimestamp");
  const Json& owner = Controller(pod);
  view.owner_uid = base::StringAt(owner, "uid");
  view.owned_by_namesake =
      base::StringAt(owner, "kind") == kKind &&
      base::StringAt(owner, "name") ==
          base::StringAt(base::At(base::At(pod, "metadata"), "labels"), kLabelJobName);
  view.task_tls = HasTaskTls(pod);
  const Json& status = base::At(pod, "status");
  view.phase = PhaseOf(base::StringAt(status, "phase"));
  if (const auto own = PhaseWithout(sidecars, pod, view.phase)) {
    view.sidecar_runs = view.phase == PodPhase::kRunning;
    view.phase = *own;
  }
  view.reason = base::StringAt(status, "reason");
  // On the node's own network the IP is the node's, and its ports are not the job's alone.
  if (!base::BoolAt(base::At(pod, "spec"), "hostNetwork")) {
    view.ip = base::StringAt(status, "podIP");
  }
  ReadContainers(base::At(status, "initContainerStatuses"), view);
  ReadContainers(base::At(status, "containerStatuses"), view);
  ReadConditions(base::At(status, "conditions"), view);
  return view;
}

bool IsOfBefore(const PodView& view, const std::string& job_uid) {
  return view.deletion_time || (view.owned_by_namesake && view.owner_uid != job_uid);
}

ServiceView ServiceViewOf(const Json& service) {
  ServiceView view;
  ReadMetadata(service, view);
  view.owner_uid = base::StringAt(Controller(service), "uid");
  return view;
}

std::string_view PhaseName(PodPhase phase) {
  constexpr std::array<std::string_view, 5> kNames = {"Pending", "Running", "Succeeded", "Failed",
                                                      "Unknown"};
  return kNames.at(static_cast<size_t>(phase));
}

std::string NameOf(const Json& object) {
  return base::StringAt(base::At(object, "metadata"), "name");
}

std::string UidOf(const Json& object) {
  return base::StringAt(base::At(object, "metadata"), "uid");
}

std::string KeyOf(const Json& object) {
  return absl::StrCat(base::StringAt(base::At(object, "metadata"), "namespace"), "/",
                      NameOf(object));
}

std::string JobKeyOf(const Json& object) {
  const Json& meta = base::At(object, "metadata");
  const std::string job = base::StringAt(base::At(meta, "labels"), kLabelJobName);
  return job.empty() ? job : absl::StrCat(base::StringAt(meta, "namespace"), "/", job);
}

uint64_t ResourceVersionOf(const Json& object) {
  uint64_t version = 0;
  return absl::SimpleAtoi(base::StringAt(base::At(object, "metadata"), "resourceVersion"), &version)
             ? version
             : 0;
}

}  // namespace tfjob
