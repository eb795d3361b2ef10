// spec.runPolicy.backoffLimit: how many restarts a job may have. PURE.
#pragma once

#include "operator/reconcile/context.h"

namespace tfjob {

// Fails the job when its limit, or that of one of its types, is exceeded. Counted are restarts
// charged to the status (failed pods that were replaced; evictions are not) and container restarts
// by the kubelet in running pods. A pod that would need one restart more than the limit fails the
// job, and so do kubelet restarts that reach it (as in v1.9, which knows only those).
void CheckBackoff(Context& context);

}  // namespace tfjob
