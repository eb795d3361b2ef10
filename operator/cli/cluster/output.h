// Answers of commands as JSON or YAML objects, for programs.
#pragma once

#include <ostream>
#include <vector>

#include "operator/cli/cluster/connection.h"

namespace tfjob {

// -o json or -o yaml was given: `out` gets objects only, and what is said to people goes to `err`.
bool IsStructured(const Cluster& cluster);

// REQUIRES: IsStructured.
void PrintObject(const Cluster& cluster, const kube::Json& object, std::ostream& out);

// A TFJob with its apiVersion and kind, which items of a list come without.
kube::Json WholeJob(kube::Json job);
// A List of whole TFJobs.
kube::Json ListOfJobs(std::vector<kube::Json> jobs);

}  // namespace tfjob
