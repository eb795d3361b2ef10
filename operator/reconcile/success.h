// Who ends the job: the rules of success and failure by replica type. PURE.
#pragma once

#include "operator/reconcile/context.h"

namespace tfjob {

// Sets Succeeded or Failed where the replicas say so. Types are judged in the order Chief,
// Evaluator, Master, PS, Worker; by default the first verdict is final, under compat_v19 a later
// failure is added.
void JudgeReplicas(Context& context);

// Sets Running if a chief (without chief: a worker) runs and no failed pod is being replaced.
void UpdateRunning(Context& context);

}  // namespace tfjob
