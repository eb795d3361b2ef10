// The pods and services of a job as Kubernetes objects, names and labels as in v1.9. PURE.
#pragma once

#include <string>
#include <vector>

#include "base/cluster_spec.h"
#include "operator/reconcile/plan.h"

namespace tfjob {

// The pod of one replica: the template plus identity, restart policy, TF_CONFIG and host lists.
// `type` is canonical; `cluster` is ClusterOf the job.
Json BuildPod(const TfJob& job, const std::string& type, int index,
              const base::ClusterSpec& cluster, const PlanOptions& options);

// What makes an object the job's: a list of one owner, or of none where the job has no uid (it is
// rendered, there is no cluster).
Json OwnersOf(const TfJob& job);
std::string NamespaceOf(const TfJob& job, const PlanOptions& options);

// object[key], made an empty object where it is none.
Json& ObjectAt(Json& object, const char* key);

// Its headless service.
Json BuildService(const TfJob& job, const std::string& type, int index, const PlanOptions& options);

// The headless service of all its pods, named as spec.network.subdomain says.
Json BuildSubdomainService(const TfJob& job, const PlanOptions& options);

// The claims of one replica, in the order of its volumeClaimTemplates. They go with the job where
// its retention policy says so.
std::vector<Json> BuildClaims(const TfJob& job, const std::string& type, int index,
                              const PlanOptions& options);

// The pods of one type as a label selector in text form, as autoscalers read it.
std::string SelectorOf(const TfJob& job, const std::string& type);

}  // namespace tfjob
