// cleanPodPolicy, of the job and of its types: what is deleted when a job has finished. PURE.
#pragma once

#include "operator/reconcile/context.h"

namespace tfjob {

// REQUIRES: the job is finished. All: every pod. Running: pods that are Running or Pending. None:
// no pod. Services go with the end of their pods, whatever becomes of those; v1.9 ties the deletion
// of a service to that of its pod.
void PlanCleanUp(Context& context);

// Every pod and service of the job.
void DeleteEverything(Context& context);

}  // namespace tfjob
