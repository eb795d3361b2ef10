#include "operator/reconcile/plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "operator/api/names.h"
#include "operator/api/task_tls.h"
#include "operator/reconcile/backoff.h"
#include "operator/reconcile/blocked.h"
#include "operator/reconcile/clean.h"
#include "operator/reconcile/context.h"
#include "operator/reconcile/deadline.h"
#include "operator/reconcile/failures.h"
#include "operator/reconcile/gang.h"
#include "operator/reconcile/lost.h"
#include "operator/reconcile/pods.h"
#include "operator/reconcile/restart.h"
#include "operator/reconcile/stall.h"
#include "operator/reconcile/status.h"
#include "operator/reconcile/success.h"
#include "operator/reconcile/suspend.h"
#include "operator/reconcile/task_tls.h"
#include "operator/reconcile/ttl.h"

namespace tfjob {
namespace {

// v1.9 leaves alone what another manager has claimed, and also the empty string.
bool IsManagedByOthers(const TfJob& job) {
  const std::optional<std::string>& manager = job.spec.run_policy.managed_by;
  return manager && *manager != kManagedByUs;
}

// Wrong types hide from Validate, which sees the defaults in their place.
std::vector<FieldError> ProblemsOf(const Observed& observed) {
  std::vector<FieldError> errors = observed.parse_errors;
  for (FieldError& error : Validate(observed.job)) errors.push_back(std::move(error));
  // What is decided at the start fails no job that runs.
  if (!observed.job.status.start_time) {
    for (FieldError& error : CheckTaskTls(observed.job)) errors.push_back(std::move(error));
  }
  return errors;
}

std::string Joined(const std::vector<FieldError>& errors) {
  return absl::StrJoin(errors, "; ", [](std::string* out, const FieldError& error) {
    out->append(ToString(error));
  });
}

// Whose CRD has dropped them.
void ForgetAdditions(TfJobSpec& spec) {
  spec.network = {};
  spec.run_policy.success_rules.clear();
  if (!spec.replicas) return;
  for (auto& [type, replica] : *spec.replicas) replica.claim_templates = nullptr;
}

// Jobs that ended before this was noted are not written again for it.
void NoteGeneration(Context& context) {
  TfJobStatus& status = context.plan.status;
  if (context.options.compat_v19) return;
  if (IsFinished(status) && status.observed_generation == 0) return;
  status.observed_generation = context.job.metadata.generation;
}

// Said once, when the job is new.
void WarnOfSpec(Context& context) {
  if (context.options.compat_v19 || context.observed.parse_warnings.empty()) return;
  AddEvent(context, "Warning", kReasonSpecWarning, Joined(context.observed.parse_warnings));
}

void FailInvalid(Context& context, const std::vector<FieldError>& errors) {
  const std::string message = absl::StrCat("TFJob failed validation because ", Joined(errors));
  if (!SetCondition(context, kFailed, kTrue, kReasonFailedValidation, message)) return;
  AddEvent(context, "Warning", kReasonFailedValidation, message);
  context.plan.status.completion_time = context.observed.now;
  context.write_status_first = true;
}

// After success v1.9 reports replicas that were still active as succeeded, once.
void FoldActive(TfJobStatus& status) {
  for (auto& [type, replica] : status.replica_statuses) {
    replica.succeeded += std::exchange(replica.active, 0);
    replica.ready = 0;
  }
}

void PlanFinished(Context& context) {
  TfJobStatus& status = context.plan.status;
  if (!status.completion_time) status.completion_time = context.observed.now;
  if (HasCondition(status, kSucceeded)) FoldActive(status);
  status.charged_pods.clear();
  if (PlanTtl(context)) return;
  PlanCleanUp(context);
  DissolveGang(context);
}

// The order of v1.9: limits, then restarts, then verdicts.
void DecideAsV19(Context& context) {
  CheckBackoff(context);
  if (!IsFinished(context.plan.status)) CheckDeadline(context);
  CountReplicas(context);
  if (IsFinished(context.plan.status)) return;
  PlanRestarts(context);
  JudgeReplicas(context);
}

// Verdicts first: a job whose chief is done has succeeded, even if a limit has passed unnoticed
// since.
void Decide(Context& context) {
  CountReplicas(context);
  NoteFailures(context);
  JudgeReplicas(context);
  if (!IsFinished(context.plan.status)) CheckBackoff(context);
  if (!IsFinished(context.plan.status)) CheckDeadline(context);
  if (IsFinished(context.plan.status)) {
    // In the same write; v1.9 takes another one for it.
    if (HasCondition(context.plan.status, kSucceeded)) FoldActive(context.plan.status);
    context.plan.status.charged_pods.clear();
    return;
  }
  PlanRestarts(context);
  UpdateRunning(context);
  AwaitPendingPods(context);
}

void PlanActive(Context& context) {
  if (context.job.spec.run_policy.suspend) return PlanSuspended(context);
  NoteResumed(context);
  DecideTaskTls(context);
  // A job is not active while it queues: its deadline does not run.
  if (!context.plan.status.start_time && !MustWaitForPodGroup(context)) {
    context.plan.status.start_time = context.observed.now;
  }
  if (context.options.compat_v19) {
    DecideAsV19(context);
  } else {
    Decide(context);
  }
  if (!context.write_status_first) PlanChildren(context);
}

}  // namespace

Plan MakePlan(const Observed& observed, const PlanOptions& options) {
  Context context{.observed = observed, .options = options, .job = observed.job};
  context.plan.status = observed.job.status;
  if (IsManagedByOthers(observed.job) || observed.job.metadata.deletion_time) return context.plan;
  SetDefaults(context.job, {.clean_pod_policy = options.default_clean_pod_policy,
                            .reclaims_ps = !options.compat_v19});
  if (options.compat_v19) ForgetAdditions(context.job.spec);
  NoteGeneration(context);
  if (MarkCreated(context)) WarnOfSpec(context);
  if (IsFinished(context.plan.status)) {
    PlanFinished(context);
    PlanLostPods(context);
    UpdateQueued(context);
    UpdateBlocked(context);
    UpdateStalled(context);
    return std::move(context.plan);
  }
  // v1.9 leaves validation to a webhook; without replicas there is nothing to decide in either
  // mode.
  if (!options.compat_v19 || !context.job.spec.replicas) {
    if (const std::vector<FieldError> errors = ProblemsOf(observed); !errors.empty()) {
      FailInvalid(context, errors);
    }
  }
  if (!IsFinished(context.plan.status)) {
    NoteProgress(context);
    context.replicas = Classify(context.job, observed, options);
    JudgeStall(context);
    PlanActive(context);
    PlanLostPods(context);
  }
  UpdateQueued(context);
  UpdateBlocked(context);
  UpdateStalled(context);
  if (context.write_status_first) {
    context.plan.actions.clear();
    context.RequeueAfter(absl::ZeroDuration());
  }
  return std::move(context.plan);
}

}  // namespace tfjob
