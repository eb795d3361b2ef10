// PodGroups as the API server has them, of either kind.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "operator/kube/client.h"
#include "operator/reconcile/plan.h"

namespace tfjob {

// The resource that a gang scheduler of this name reads; an empty one for "".
kube::Resource PodGroupsOf(const std::string& gang_scheduler);

// PURE and total.
PodGroupView PodGroupViewOf(const Json& pod_group);

// kInvalidArgument, with what to do, if the API server knows no such resource. OK otherwise, also
// where it does not answer: then the watch says what is wrong.
absl::Status CheckPodGroupsServed(kube::Client& client, const std::string& gang_scheduler,
                                  const std::string& ns);

}  // namespace tfjob
