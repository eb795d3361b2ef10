// What the pods of a job ask of a cluster, added up. PURE.
#pragma once

#include <map>
#include <string>

#include "operator/api/tfjob.h"

namespace tfjob {

// Resource name → quantity.
using Resources = std::map<std::string, std::string>;

// The requests of the first `pods` pods in the order in which they are created. A container's limit
// stands in for a request that it does not make, as the API server fills it in; init containers
// count as the scheduler counts them. `job` has its defaults. Quantities that are none are left
// out: the API server refuses such pods.
Resources RequestsOf(const TfJob& job, int pods);

// Whether two lists mean the same: "1" and "1000m" do.
bool SameResources(const Resources& a, const Resources& b);

}  // namespace tfjob
