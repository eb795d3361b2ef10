// spec.runPolicy.ttlSecondsAfterFinished: when a finished job deletes itself. PURE.
#pragma once

#include "operator/reconcile/context.h"

namespace tfjob {

// REQUIRES: the job is finished. Deletes the job (and nothing else) once its time is over, else
// asks to be woken then. Not while suspended. True if the job is to be deleted.
bool PlanTtl(Context& context);

}  // namespace tfjob
