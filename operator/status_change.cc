#include "operator/status_change.h"

#include <algorithm>

#include "operator/api/names.h"
#include "operator/reconcile/status.h"

namespace tfjob {
namespace {

int TotalReplicas(const TfJob& job) {
  int total = 0;
  if (!job.spec.replicas) return 0;
  for (const auto& [type, replica] : *job.spec.replicas) total += replica.replicas.value_or(1);
  return total;
}

// What is left of a status when counters, selectors and the condition Running are taken away.
TfJobStatus WithoutCounters(TfJobStatus status) {
  RemoveCondition(status, kRunning);
  for (auto& [type, replica] : status.replica_statuses) {
    replica = {.restarts = replica.restarts};
  }
  return status;
}

// A first status with no more in it than Created, Running and counters.
bool SaysOnlyThatItRuns(const TfJobStatus& status) {
  const auto is_plain = [](const Condition& c) { return c.type == kCreated || c.type == kRunning; };
  return std::all_of(status.conditions.begin(), status.conditions.end(), is_plain) &&
         HasCondition(status, kRunning) && RestartsOf(status) == 0 && status.charged_pods.empty();
}

// Every replica that the job asks for runs or has run.
bool AllStarted(const TfJob& job, const TfJobStatus& status) {
  int started = 0;
  for (const auto& [type, replica] : status.replica_statuses) {
    started += replica.active + replica.succeeded;
  }
  return started >= TotalReplicas(job);
}

}  // namespace

bool Begins(const TfJobStatus& before, const TfJobStatus& after, const char* type) {
  return HasCondition(after, type) && !HasCondition(before, type);
}

int RestartsOf(const TfJobStatus& status) {
  int restarts = 0;
  for (const auto& [type, replica] : status.replica_statuses) restarts += replica.restarts;
  return restarts;
}

bool SameStatus(const TfJobStatus& a, const TfJobStatus& b) {
  return StatusToJson(a) == StatusToJson(b);
}

bool IsOnlyAboutCounters(const TfJob& job, const TfJobStatus& after, bool is_first) {
  const TfJobStatus& before = job.status;
  if (is_first ? !SaysOnlyThatItRuns(after)
               : !SameStatus(WithoutCounters(after), WithoutCounters(before))) {
    return false;
  }
  return !Begins(before, after, kRunning) || !AllStarted(job, after);
}

}  // namespace tfjob
