#include "operator/reconcile/deadline.h"

#include "absl/strings/str_cat.h"
#include "operator/api/names.h"
#include "operator/reconcile/status.h"

namespace tfjob {

void CheckDeadline(Context& context) {
  const std::optional<int64_t> limit = context.job.spec.run_policy.active_deadline_seconds;
  if (!limit || !context.plan.status.start_time) return;
  const absl::Duration left =
      *context.plan.status.start_time + absl::Seconds(*limit) - context.observed.now;
  if (left > absl::ZeroDuration()) {
    context.RequeueAfter(left);
    return;
  }
  Finish(context, kFailed,
         absl::StrCat("Job ", context.job.metadata.name,
                      " has failed because it was active longer than specified deadline"));
}

}  // namespace tfjob
