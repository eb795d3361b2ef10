#include "operator/api/names.h"
#include "operator/api/progress_spec.h"
#include "operator/progress_watch.h"

namespace tfjob {
namespace {

// Its chief is worth a question.
bool IsActive(const TfJob& job) {
  const RunPolicy& policy = job.spec.run_policy;
  return !IsFinished(job.status) && !job.metadata.deletion_time && !policy.suspend &&
         policy.managed_by.value_or(kManagedByUs) == kManagedByUs;
}

}  // namespace

std::optional<ProgressTarget> ProgressTargetOf(const Observed& observed) {
  const TfJob& job = observed.job;
  const std::optional<int> port = ProgressPort(job.spec);
  if (!port || !IsActive(job)) return std::nullopt;
  const std::string name = ReplicaName(job.metadata.name, ReporterType(job.spec), 0);
  for (const PodView& pod : observed.pods) {
    if (pod.name != name || pod.owner_uid != job.metadata.uid || pod.deletion_time) continue;
    if (pod.phase != PodPhase::kRunning || pod.ip.empty()) continue;
    const int seconds = job.spec.progress
                            ? job.spec.progress->interval_seconds.value_or(kDefaultProgressSeconds)
                            : kDefaultProgressSeconds;
    return ProgressTarget{.job_uid = job.metadata.uid,
                          .pod_uid = pod.uid,
                          .ip = pod.ip,
                          .port = *port,
                          .interval = absl::Seconds(seconds)};
  }
  return std::nullopt;
}

void ObserveProgress(ProgressWatch* watch, const std::string& key, Observed& observed) {
  if (watch == nullptr) return;
  observed.progress = watch->Latest(key);
  const std::optional<ProgressStatus>& known = observed.job.status.progress;
  watch->Follow(key, ProgressTargetOf(observed),
                known ? known->last_update_time : absl::InfinitePast());
}

}  // namespace tfjob
