// spec.startupPolicy: with InOrder the pods of a type are made once those of all types before it
// have started. PURE.
#pragma once

#include <cstddef>

#include "operator/reconcile/context.h"

namespace tfjob {

// The last CreationRank whose missing pods may be made: that of the first type with a replica that
// is neither ready nor over. Where pods of later types are missing, says in plan.waits_for which
// ones they wait for. A gang has no such limit: its scheduler waits for all pods before it places
// any.
size_t PlanStartupOrder(Context& context);

}  // namespace tfjob
