// spec.startupPolicy: with InOrder the pods of a type are made once those of all types before it
// have started. PURE.
#pragma once

#include "operator/reconcile/context.h"

namespace tfjob {

// The replica's missing pod may not be made yet: one of an earlier type is neither ready nor over.
// Not so in a gang, whose scheduler waits for all pods before it places any.
bool MustWaitForOthers(const Context& context, const Replica& replica);

// Says in plan.waits_for which pods the next ones wait for.
void NoteStartupOrder(Context& context);

}  // namespace tfjob
