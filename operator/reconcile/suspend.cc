#include "operator/reconcile/suspend.h"

#include "absl/strings/str_cat.h"
#include "operator/api/names.h"
#include "operator/reconcile/clean.h"
#include "operator/reconcile/gang.h"
#include "operator/reconcile/status.h"

namespace tfjob {

void PlanSuspended(Context& context) {
  DeleteEverything(context);
  DissolveGang(context);
  for (auto& [type, status] : context.plan.status.replica_statuses)
    status.active = status.ready = 0;
  const std::string message = absl::StrCat("TFJob ", context.job.metadata.name, " is suspended.");
  if (HasCondition(context.plan.status, kRunning)) {
    SetCondition(context, kRunning, kFalse, kReasonSuspended, message);
  }
  if (SetCondition(context, kSuspended, kTrue, kReasonSuspended, message)) {
    AddEvent(context, "Normal", kReasonSuspended, message);
  }
}

void NoteResumed(Context& context) {
  if (!HasCondition(context.plan.status, kSuspended)) return;
  const std::string message = absl::StrCat("TFJob ", context.job.metadata.name, " is resumed.");
  SetCondition(context, kSuspended, kFalse, kReasonResumed, message);
  AddEvent(context, "Normal", kReasonResumed, message);
  context.plan.status.start_time.reset();  // it starts anew
}

}  // namespace tfjob
