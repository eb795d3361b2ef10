// Names of jobs, pods and namespaces for a shell's completion.
#pragma once

#include <string>
#include <vector>

#include "operator/cli/cluster/connection.h"
#include "operator/cli/complete.h"

namespace tfjob {

// How long the cluster may take to answer, all in all.
inline constexpr absl::Duration kCompletionTimeout = absl::Seconds(2);

// The connection that the flags typed so far ask for.
ConnectionFlags ConnectionOf(const TypedArguments& typed);

// At most one page of names, sorted; none where the cluster does not answer or refuses.
std::vector<std::string> ClusterNames(const Cluster& cluster, NameKind kind,
                                      const TypedArguments& typed);

}  // namespace tfjob
