// `trainyard describe JOB`: its state in plain words, what stands in its way and what to do.
#pragma once

#include <ostream>
#include <string>

#include "operator/cli/cluster/connection.h"
#include "operator/cli/cluster/diagnosis.h"

namespace tfjob {

// Exit code for main: 0 also for a job that does not get on.
int DescribeJob(const Cluster& cluster, const std::string& name, std::ostream& out,
                std::ostream& err);

// All that a diagnosis needs. Logs and the cluster's DNS are asked for only where they may tell
// something; what may not be read is left out.
absl::StatusOr<JobPicture> TakePicture(const Cluster& cluster, const std::string& name);

// The text of `describe`. PURE.
std::string DescribePicture(const JobPicture& picture);

// The same for programs: state, replicas, restarts, progress, findings, pods, and the job itself.
// PURE.
Json PictureJson(const JobPicture& picture);

}  // namespace tfjob
