// spec.runPolicy.suspend: stopping a job and starting it again. PURE.
#pragma once

#include "operator/reconcile/context.h"

namespace tfjob {

// Deletes every child, whatever the clean-up policy, and reports no active replicas.
void PlanSuspended(Context& context);

// After a suspension: Suspended becomes False and the time of the deadline starts anew.
void NoteResumed(Context& context);

}  // namespace tfjob
