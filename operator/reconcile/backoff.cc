#include "operator/reconcile/backoff.h"

#include "absl/strings/str_cat.h"
#include "operator/api/names.h"
#include "operator/reconcile/restart.h"
#include "operator/reconcile/status.h"

namespace tfjob {
namespace {

int KubeletRestarts(const Context& context) {
  int restarts = 0;
  for (const Replica& replica : context.replicas.wanted) {
    if (replica.state != ReplicaState::kRunning) continue;
    if (context.policy_of(replica.type) == kRestartNever) continue;
    restarts += replica.pod->restart_count;
  }
  return restarts;
}

int ChargedRestarts(const Context& context) {
  int restarts = 0;
  for (const auto& [type, status] : context.plan.status.replica_statuses) {
    restarts += status.restarts;
  }
  return restarts;
}

int RestartsWanted(const Context& context) {
  int wanted = 0;
  for (const Replica& replica : context.replicas.wanted) {
    if (replica.state != ReplicaState::kRetry) continue;
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

bool IsExceeded(const Context& context, int limit) {
  const int kubelet = KubeletRestarts(context);
  if (context.options.compat_v19) {
    return (kubelet > 0 && kubelet >= limit) || HasNewFailureAtLimitZero(context, limit);
  }
  const int done = kubelet + ChargedRestarts(context);
  return (kubelet > 0 && done >= limit) ||
         (RestartsWanted(context) > 0 && done + RestartsWanted(context) > limit);
}

}  // namespace

void CheckBackoff(Context& context) {
  const std::optional<int32_t> limit = context.job.spec.run_policy.backoff_limit;
  if (!limit || !IsExceeded(context, *limit)) return;
  Finish(context, kFailed,
         absl::StrCat("Job ", context.job.metadata.name,
                      " has failed because it has reached the specified backoff limit"));
}

}  // namespace tfjob
