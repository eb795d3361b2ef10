// What one pod asks of its node. PURE.
#pragma once

#include <map>
#include <string>

#include "operator/api/tfjob.h"

namespace tfjob {

// Resource name → amount in base units (cores, bytes, pieces).
using Amounts = std::map<std::string, double>;

// Of a pod or a pod template. A container's limit stands in for a request that it does not make, as
// the API server fills it in; init containers count as the scheduler counts them: sidecars (those
// that restart) run beside everything that comes after them, each other one runs alone, before the
// rest. Quantities that are none are left out: the API server refuses such pods.
// https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
Amounts RequestsOfPod(const Json& pod);

}  // namespace tfjob
