// Which pods and services are missing, and which are too many. PURE.
#pragma once

#include "operator/reconcile/context.h"

namespace tfjob {

// Deletes what is beyond the wanted indexes, creates what is missing: all services before all pods,
// so that names resolve when programs start; PS first, then Chief, Master, Worker, Evaluator.
void PlanChildren(Context& context);

}  // namespace tfjob
