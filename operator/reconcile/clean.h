// spec.runPolicy.cleanPodPolicy: what is deleted when a job has finished. PURE.
#pragma once

#include "operator/reconcile/context.h"

namespace tfjob {

// REQUIRES: the job is finished. All: every pod and service. Running: pods that are Running or
// Pending, and services without a finished pod. None: nothing. By default services whose pod is
// already gone are deleted too; v1.9 ties the deletion of a service to that of its pod.
void PlanCleanUp(Context& context);

// Every pod and service of the job.
void DeleteEverything(Context& context);

}  // namespace tfjob
