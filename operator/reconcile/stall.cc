#include "operator/reconcile/stall.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "operator/api/names.h"
#include "operator/api/progress_spec.h"
#include "operator/reconcile/status.h"

namespace tfjob {
namespace {

// Since when a step is due; nullopt where none is. A job that runs again has its time anew.
std::optional<absl::Time> StepDueSince(const Context& context) {
  const TfJobStatus& status = context.plan.status;
  if (!status.progress || IsFinished(status) || !HasCondition(status, kRunning)) {
    return std::nullopt;
  }
  const Progress& read = status.progress->read;
  if (read.last_step > 0 && read.global_step >= read.last_step) return std::nullopt;
  absl::Time since = status.progress->last_step_time;
  for (const Condition& condition : status.conditions) {
    if (condition.type == kRunning) since = std::max(since, condition.last_transition_time);
  }
  return since;
}

// How long the next step may still take; nullopt: none is due.
std::optional<absl::Duration> StepLeft(const Context& context) {
  const std::optional<ProgressSpec>& spec = context.job.spec.progress;
  if (!spec || !spec->stall_seconds || context.options.compat_v19) return std::nullopt;
  const std::optional<absl::Time> since = StepDueSince(context);
  if (!since) return std::nullopt;
  return *since + absl::Seconds(*spec->stall_seconds) - context.observed.now;
}

std::string StalledMessage(const Context& context) {
  return absl::StrCat("TFJob ", JobKey(context), " is stalled: no new step was read for ",
                      *context.job.spec.progress->stall_seconds, " s (",
                      ProgressSummary(context.plan.status.progress->read), ").");
}

}  // namespace

void JudgeStall(Context& context) {
  static const FailureRule* const restart = new FailureRule{.action = kRestartJob};
  static const FailureRule* const fail = new FailureRule{.action = kFailJob};
  const std::optional<absl::Duration> left = StepLeft(context);
  if (!left || *left > absl::ZeroDuration()) return;
  const std::string& action = context.job.spec.progress->stall_action;
  if (action.empty()) return;
  const std::string reporter = ReporterType(context.job.spec);
  for (Replica& replica : context.replicas.wanted) {
    if (replica.type != reporter || replica.index != 0) continue;
    if (replica.state != ReplicaState::kRunning) return;
    replica.rule = action == kFailJob ? fail : restart;
    replica.is_stalled = true;
    replica.state = action == kFailJob ? ReplicaState::kFailed : ReplicaState::kGangRestart;
    AddEvent(context, "Warning", kReasonStalled, StalledMessage(context));
    return;
  }
}

void UpdateStalled(Context& context) {
  const std::optional<absl::Duration> left = StepLeft(context);
  if (!left) return RemoveCondition(context.plan.status, kStalled);
  if (*left > absl::ZeroDuration()) {
    context.RequeueAfter(*left);
    return RemoveCondition(context.plan.status, kStalled);
  }
  const std::string message = StalledMessage(context);
  if (!SetCondition(context, kStalled, kTrue, kReasonStalled, message)) return;
  AddEvent(context, "Warning", kReasonStalled, message);
}

}  // namespace tfjob
