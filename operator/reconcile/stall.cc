#include "operator/reconcile/stall.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "operator/api/names.h"
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

void Clear(Context& context) {
  std::erase_if(context.plan.status.conditions,
                [](const Condition& condition) { return condition.type == kStalled; });
}

}  // namespace

void UpdateStalled(Context& context) {
  const std::optional<ProgressSpec>& spec = context.job.spec.progress;
  const std::optional<absl::Time> since = StepDueSince(context);
  if (!spec || !spec->stall_seconds || !since || context.options.compat_v19) return Clear(context);
  const absl::Duration left = *since + absl::Seconds(*spec->stall_seconds) - context.observed.now;
  if (left > absl::ZeroDuration()) {
    context.RequeueAfter(left);
    return Clear(context);
  }
  const std::string message = absl::StrCat(
      "TFJob ", JobKey(context), " is stalled: no new step was read for ", *spec->stall_seconds,
      " s (", ProgressSummary(context.plan.status.progress->read), ").");
  if (!SetCondition(context, kStalled, kTrue, kReasonStalled, message)) return;
  AddEvent(context, "Warning", kReasonStalled, message);
}

}  // namespace tfjob
