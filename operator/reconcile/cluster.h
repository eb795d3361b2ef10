// Who is in the cluster of a job, and what each of its tasks is told about it. PURE.
#pragma once

#include <string>

#include "base/cluster_spec.h"
#include "operator/reconcile/plan.h"

namespace tfjob {

// Every replica of the job with its address, including types that only this job knows.
base::ClusterSpec ClusterOf(const TfJob& job, const PlanOptions& options);

// The value of TF_CONFIG for one task, "" when it gets none: the job has exactly one replica.
// `cluster` is ClusterOf the job.
std::string TfConfigFor(const TfJob& job, const base::ClusterSpec& cluster, const base::Task& task,
                        const PlanOptions& options);

// PS_HOSTS, WORKER_HOSTS, JOB_NAME and TASK_INDEX as a list of env entries.
Json HostEnv(const base::ClusterSpec& cluster, const base::Task& task);

}  // namespace tfjob
