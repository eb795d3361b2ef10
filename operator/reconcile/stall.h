// spec.progress.stallSeconds: a training that does not get on is pointed out, and nothing more.
// PURE.
#pragma once

#include "operator/reconcile/context.h"

namespace tfjob {

// Condition Stalled, with a Warning, once no new step has been read for that long while the job
// runs and has steps to go; taken away as soon as one is. Else asks to be woken at that instant.
void UpdateStalled(Context& context);

}  // namespace tfjob
