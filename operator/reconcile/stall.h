// spec.progress.stallSeconds: a training that does not get on is pointed out, or the job restarted
// or failed where stallAction asks for it. PURE.
#pragma once

#include "operator/reconcile/context.h"

namespace tfjob {

// Where stallAction says what follows, the replica that tells the progress of a stalled job gets a
// rule, as if it had failed.
void JudgeStall(Context& context);

// Condition Stalled, with a Warning, once no new step has been read for that long while the job
// runs and has steps to go; taken away as soon as one is. Else asks to be woken at that instant.
void UpdateStalled(Context& context);

}  // namespace tfjob
