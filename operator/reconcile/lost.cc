#include "operator/reconcile/lost.h"

#include "operator/reconcile/failures.h"

namespace tfjob {

void PlanLostPods(Context& context) {
  const absl::Duration timeout = context.options.lost_pod_timeout;
  if (timeout <= absl::ZeroDuration()) return;
  for (const PodView& pod : context.observed.pods) {
    if (!IsOurs(pod, context.job) || !pod.deletion_time || !IsDisrupted(pod)) continue;
    const absl::Duration left = *pod.deletion_time + timeout - context.observed.now;
    if (left > absl::ZeroDuration()) {
      context.RequeueAfter(left);
      continue;
    }
    context.plan.actions.insert(context.plan.actions.begin(),
                                DeletePod{.name = pod.name, .uid = pod.uid, .force = true});
    context.plan.deletes_all_pods = false;  // one call for all would not force it
  }
}

}  // namespace tfjob
