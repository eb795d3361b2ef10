// What the pods of a job ask of a cluster, added up. PURE.
#pragma once

#include <map>
#include <string>

#include "operator/api/tfjob.h"

namespace tfjob {

// Resource name → quantity.
using Resources = std::map<std::string, std::string>;

// The requests (see api/pod_requests.h) of the first `pods` pods in the order in which they are
// created. `job` has its defaults.
Resources RequestsOf(const TfJob& job, int pods);

// Whether two lists mean the same: "1" and "1000m" do.
bool SameResources(const Resources& a, const Resources& b);

}  // namespace tfjob
