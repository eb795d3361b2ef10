// Which pods and services are missing, and which are too many. PURE.
#pragma once

#include <cstddef>
#include <string>

#include "operator/reconcile/context.h"

namespace tfjob {

// Deletes what is beyond the wanted indexes, creates what is missing: all services before all pods,
// so that names resolve when programs start; PS first, then Chief, Master, Worker, Evaluator.
void PlanChildren(Context& context);

// The place of a (canonical) type in that order.
size_t CreationRank(const std::string& type);

}  // namespace tfjob
