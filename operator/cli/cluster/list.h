// `trainyard list`: the TFJobs of a namespace, or of all.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "operator/cli/cluster/connection.h"
#include "operator/cli/cluster/job_row.h"

namespace tfjob {

// Exit code for main.
int ListJobs(const Cluster& cluster, std::ostream& out, std::ostream& err);

// The table's rows, the heading first; sorted by namespace and name.
std::vector<std::vector<std::string>> JobTable(std::vector<Json> jobs, bool all_namespaces,
                                               bool wide, absl::Time now);

}  // namespace tfjob
