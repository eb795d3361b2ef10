#include "operator/reconcile/ttl.h"

namespace tfjob {

bool PlanTtl(Context& context) {
  const RunPolicy& policy = context.job.spec.run_policy;
  if (!policy.ttl_seconds_after_finished || policy.suspend) return false;
  const absl::Duration left = *context.plan.status.completion_time +
                              absl::Seconds(*policy.ttl_seconds_after_finished) -
                              context.observed.now;
  if (left > absl::ZeroDuration()) {
    context.RequeueAfter(left);
    return false;
  }
  context.plan.actions = {DeleteJob{context.job.metadata.name, context.job.metadata.uid}};
  context.plan.requeue_after.reset();
  return true;
}

}  // namespace tfjob
