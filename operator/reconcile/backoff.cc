#include "operator/reconcile/backoff.h"

#include "absl/strings/str_cat.h"
#include "operator/api/names.h"
#include "operator/reconcile/restart.h"
#include "operator/reconcile/status.h"

namespace tfjob {
namespace {

bool IsOf(const std::string& type, const std::string& wanted) {
  return wanted.empty() || type == wanted;
}

int KubeletRestarts(const Context& context, const std::string& type = "") {
  int restarts = 0;
  for (const Replica& replica : context.replicas.wanted) {
    if (replica.state != ReplicaState::kRunning || !IsOf(replica.type, type)) continue;
    if (context.policy_of(replica.type) == kRestartNever) continue;
    restarts += replica.pod->restart_count;
  }
  return restarts;
}

int ChargedRestarts(const Context& context, const std::string& wanted = "") {
  int restarts = 0;
  for (const auto& [type, status] : context.plan.status.replica_statuses) {
    if (IsOf(type, wanted)) restarts += status.restarts;
  }
  return restarts;
}

// Of one type, or of all: "".
int RestartsWanted(const Context& context, const std::string& type = "") {
  if (const Replica* cause = NewGangRestart(context)) {
    return cause->rule->counts && (type.empty() || type == cause->type);
  }
  int wanted = 0;
  for (const Replica& replica : context.replicas.wanted) {
    if (replica.state != ReplicaState::kRetry || !IsOf(replica.type, type)) continue;
    if (!IsCharged(context.plan.status, *replica.pod)) ++wanted;
  }
  return wanted;
}

// The second rule of v1.9: it asks a work queue that always says 0, so it fires for limit 0 only.
bool HasNewFailureAtLimitZero(const Context& context, int limit) {
  int active = 0;
  int total = 0;
  int failed = 0;
  int failed_before = 0;
  for (const PodView& pod : context.observed.pods) {
    if (!IsOurs(pod, context.job)) continue;
    failed += pod.phase == PodPhase::kFailed;
    active +=
        pod.phase != PodPhase::kFailed && pod.phase != PodPhase::kSucceeded && !pod.deletion_time;
  }
  for (const auto& [type, spec] : *context.job.spec.replicas) total += spec.replicas.value_or(1);
  for (const auto& [type, status] : context.job.status.replica_statuses) {
    failed_before += status.failed;
  }
  return limit == 0 && failed > failed_before && active != total;
}

bool IsExceeded(const Context& context, int limit, const std::string& type = "") {
  const int kubelet = KubeletRestarts(context, type);
  if (context.options.compat_v19) {
    return (kubelet > 0 && kubelet >= limit) || HasNewFailureAtLimitZero(context, limit);
  }
  const int done = kubelet + ChargedRestarts(context, type);
  const int wanted = RestartsWanted(context, type);
  return (kubelet > 0 && done >= limit) || (wanted > 0 && done + wanted > limit);
}

}  // namespace

void CheckBackoff(Context& context) {
  const std::optional<int32_t> limit = context.job.spec.run_policy.backoff_limit;
  if (limit && IsExceeded(context, *limit)) {
    return Finish(context, kFailed,
                  absl::StrCat("Job ", context.job.metadata.name,
                               " has failed because it has reached the specified backoff limit"));
  }
  if (context.options.compat_v19) return;
  for (const auto& [type, replica] : *context.job.spec.replicas) {
    if (!replica.backoff_limit || !IsExceeded(context, *replica.backoff_limit, type)) continue;
    return Finish(context, kFailed,
                  absl::StrCat("Job ", context.job.metadata.name, " has failed because its ", type,
                               " replicas have reached their backoff limit"));
  }
}

}  // namespace tfjob
