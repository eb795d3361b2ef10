#include "operator/page/job_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/api/shown.h"
#include "operator/pod_view.h"
#include "operator/reconcile/replicas.h"
#include "operator/reconcile/waiting.h"
#include "operator/status_change.h"

namespace tfjob {
namespace {

constexpr size_t kMostPods = 500;  // of one job, in one answer

Json TimeOf(const std::optional<absl::Time>& time) {
  return time ? Json(base::TimeText(*time)) : Json();
}

bool IsTrue(const Condition& condition) { return condition.status == kTrue; }

struct TypeRow {
  std::string type;
  int wanted = 0;
  ReplicaStatus status;
};

std::vector<TypeRow> ReplicasOf(const TfJob& job) {
  std::vector<TypeRow> out;
  if (!job.spec.replicas) return out;
  for (const auto& [key, spec] : *job.spec.replicas) {
    const std::string type = CanonicalReplicaType(key);
    const auto status = job.status.replica_statuses.find(type);
    out.push_back(
        {.type = type,
         .wanted = spec.replicas.value_or(1),
         .status = status == job.status.replica_statuses.end() ? ReplicaStatus() : status->second});
  }
  std::sort(out.begin(), out.end(), [](const TypeRow& a, const TypeRow& b) {
    return std::make_pair(TypeRank(a.type), a.type) < std::make_pair(TypeRank(b.type), b.type);
  });
  return out;
}

Json ReplicaRows(const TfJob& job) {
  Json out = Json::array();
  for (const TypeRow& each : ReplicasOf(job)) {
    out.push_back({{"type", each.type},
                   {"wanted", each.wanted},
                   {"running", each.status.active},
                   {"succeeded", each.status.succeeded},
                   {"failed", each.status.failed}});
  }
  return out;
}

Json PodRow(const PodView& pod) {
  Json out = {{"name", pod.name},   {"type", CanonicalReplicaType(pod.type)},
              {"index", pod.index}, {"phase", PhaseName(pod.phase)},
              {"ready", pod.ready}, {"restarts", pod.restart_count}};
  if (pod.exit_code) out["exitCode"] = *pod.exit_code;
  if (pod.deletion_time) out["deleting"] = true;
  if (!pod.waiting_reason.empty()) out["waiting"] = pod.waiting_reason;
  if (!pod.waiting_message.empty()) out["message"] = pod.waiting_message;
  if (!pod.reason.empty()) out["reason"] = pod.reason;
  return out;
}

// By type and index.
Json PodRows(const Observed& observed) {
  std::vector<const PodView*> pods;
  for (const PodView& pod : observed.pods) {
    if (IsOurs(pod, observed.job)) pods.push_back(&pod);
  }
  std::sort(pods.begin(), pods.end(), [](const PodView* a, const PodView* b) {
    const auto key = [](const PodView& pod) {
      return std::make_tuple(TypeRank(CanonicalReplicaType(pod.type)), pod.index, pod.name);
    };
    return key(*a) < key(*b);
  });
  Json rows = Json::array();
  for (const PodView* pod : pods) {
    if (rows.size() < kMostPods) rows.push_back(PodRow(*pod));
  }
  return {{"total", pods.size()}, {"rows", std::move(rows)}};
}

// Why pods wait, each reason once.
std::vector<std::string> PodsThatWait(const Observed& observed) {
  std::vector<std::string> out;
  for (const auto& [reason, pods] : WaitingPods(observed)) {
    const std::string& message = pods.first->waiting_message;
    out.push_back(absl::StrCat("pod ", pods.first->name, ": ", reason, message.empty() ? "" : ": ",
                               message, AndMore(pods)));
  }
  return out;
}

std::vector<std::string> ReplicasThatWait(const TfJob& job) {
  std::vector<std::string> out;
  for (const TypeRow& each : ReplicasOf(job)) {
    const int missing = each.wanted - each.status.active - each.status.succeeded;
    if (missing <= 0) continue;
    out.push_back(absl::StrCat(missing, " of ", each.wanted, " ", LowerReplicaType(each.type)));
  }
  return out;
}

Json WaitsOf(const Observed& observed, const JobParts& parts) {
  const TfJob& job = observed.job;
  std::vector<std::string> out;
  if (IsFinished(job.status)) return out;
  const std::optional<std::string>& manager = job.spec.run_policy.managed_by;
  if (manager && *manager != kManagedByUs) {
    return Json::array(
        {absl::StrCat(*manager, " manages this job; this operator leaves it alone")});
  }
  if (job.status.conditions.empty()) out.emplace_back("the operator has not looked at it yet");
  bool is_held = false;
  for (const Condition& condition : job.status.conditions) {
    if (!IsTrue(condition) || condition.type == kCreated || condition.type == kRunning) continue;
    out.push_back(absl::StrCat(condition.type, ": ", condition.message));
    is_held = is_held || condition.type == kSuspended;
  }
  if (!parts.waits_for.empty()) out.push_back(parts.waits_for);
  if (parts.pods_refused.empty()) {
    for (std::string& text : PodsThatWait(observed)) out.push_back(std::move(text));
  }
  const std::vector<std::string> missing = ReplicasThatWait(job);
  if (!missing.empty() && !is_held) {
    out.push_back(absl::StrCat("not running yet: ", absl::StrJoin(missing, ", ")));
  }
  return out;
}

Json NumberOf(float number) { return std::isfinite(number) ? Json(number) : Json(); }

// [seconds, step, loss, rate] each.
Json CurveOf(const std::vector<ProgressPoint>& points) {
  Json out = Json::array();
  for (const ProgressPoint& point : points) {
    Json row = Json::array();
    row.push_back(point.seconds);
    row.push_back(point.step);
    row.push_back(NumberOf(point.loss));
    row.push_back(NumberOf(point.rate));
    out.push_back(std::move(row));
  }
  return out;
}

Json ConditionRows(const TfJobStatus& status) {
  Json out = Json::array();
  for (const Condition& condition : status.conditions) {
    out.push_back({{"type", condition.type},
                   {"status", condition.status},
                   {"reason", condition.reason},
                   {"message", condition.message},
                   {"since", base::TimeText(condition.last_transition_time)}});
  }
  return out;
}

Json FailureRows(const TfJobStatus& status) {
  Json out = Json::array();
  for (const PodFailure& failure : status.failures) {
    Json row = {{"pod", failure.pod},
                {"reason", failure.reason},
                {"message", failure.message},
                {"time", TimeOf(failure.time)}};
    if (failure.exit_code) row["exitCode"] = *failure.exit_code;
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace

std::string_view StateOf(const std::vector<Condition>& conditions) {
  return ShownState([&](const char* type) {
    return std::any_of(conditions.begin(), conditions.end(),
                       [&](const Condition& each) { return each.type == type && IsTrue(each); });
  });
}

size_t RankOf(std::string_view state) {
  constexpr std::array<std::string_view, 10> kOrder = {kBlocked, kStalled,  kQueued,  kRestarting,
                                                       kNew,     kCreated,  kRunning, kSuspended,
                                                       kFailed,  kSucceeded};
  return std::find(kOrder.begin(), kOrder.end(), state) - kOrder.begin();
}

Json JobRow(const TfJob& job) {
  const TfJobStatus& status = job.status;
  Json out = {
      {"namespace", job.metadata.namespace_name}, {"name", job.metadata.name},
      {"state", StateOf(status.conditions)},      {"replicas", ReplicaRows(job)},
      {"restarts", RestartsOf(status)},           {"created", TimeOf(job.metadata.creation_time)},
      {"started", TimeOf(status.start_time)},     {"ended", TimeOf(status.completion_time)}};
  if (job.metadata.deletion_time) out["deleting"] = true;
  if (status.progress) out["progress"] = ProgressStatusToJson(*status.progress);
  if (!status.conditions.empty()) out["message"] = status.conditions.back().message;
  return out;
}

Json JobDetail(const Observed& observed, const JobParts& parts) {
  const TfJob& job = observed.job;
  Json out = JobRow(job);
  out["uid"] = job.metadata.uid;
  out["conditions"] = ConditionRows(job.status);
  out["failures"] = FailureRows(job.status);
  out["waits"] = WaitsOf(observed, parts);
  out["curve"] = CurveOf(parts.curve);
  if (parts.pods_refused.empty()) {
    out["pods"] = PodRows(observed);
  } else {
    out["podsRefused"] = parts.pods_refused;
  }
  return out;
}

Json EventRow(const Json& event) {
  const Json& series = base::At(event, "series");
  std::string last = base::StringAt(series, "lastObservedTime");
  for (const char* key : {"lastTimestamp", "eventTime", "firstTimestamp"}) {
    if (last.empty()) last = base::StringAt(event, key);
  }
  const Json& count = base::At(series.is_object() ? series : event, "count");
  return {{"type", base::StringAt(event, "type")},
          {"reason", base::StringAt(event, "reason")},
          {"message", base::StringAt(event, "message")},
          {"count", count.is_number_integer() ? count.get<int64_t>() : 1},
          {"last", last}};
}

}  // namespace tfjob
