#include "operator/reconcile/cluster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "operator/api/names.h"
#include "operator/api/network.h"

namespace tfjob {
namespace {

// Linux refuses to start a program with a longer environment variable (MAX_ARG_STRLEN).
constexpr size_t kMaxEnvBytes = 128 * 1024 - 64;

// A name of the replica that every pod of the Kubernetes cluster can resolve: of its own service,
// or of its pod behind that of the job.
std::string DnsAddress(const TfJob& job, const base::Task& task, int port,
                       const PlanOptions& options) {
  const std::string& name_space = job.metadata.namespace_name;
  return absl::StrCat(HostOf(job, task.job, task.index), ".",
                      name_space.empty() ? options.default_namespace : name_space, ".svc",
                      options.cluster_domain.empty() ? "" : ".", options.cluster_domain, ":", port);
}

// The known types only, as v1.9 counts them.
int64_t TotalReplicas(const TfJob& job) {
  int64_t total = 0;
  for (const auto& [type, spec] : *job.spec.replicas) {
    if (IsKnownReplicaType(type)) total += spec.replicas.value_or(1);
  }
  return total;
}

// Listed for the others in TF_CONFIG.
bool IsInCluster(const std::string& type, const ReplicaSpec& replica, const PlanOptions& options) {
  return replica.in_cluster_spec.value_or(type != kEvaluator || options.evaluator_in_cluster);
}

// A worker knows itself and all ps; a ps only itself; others all ps and themselves (v1.9: nobody).
base::ClusterSpec SparseCluster(const base::ClusterSpec& cluster, const base::Task& task,
                                bool compat_v19) {
  base::ClusterSpec out;
  const auto ps = cluster.jobs.find("ps");
  if (task.job == "ps") {
    out.jobs["ps"] = {{task.index, cluster.Address(task)}};
    return out;
  }
  if (task.job == "worker") {
    if (ps != cluster.jobs.end()) out.jobs["ps"] = ps->second;
  } else {
    out.jobs["ps"] = {};
    if (compat_v19) return out;
    if (ps != cluster.jobs.end()) out.jobs["ps"] = ps->second;
  }
  out.jobs[task.job] = {{task.index, cluster.Address(task)}};
  return out;
}

}  // namespace

base::ClusterSpec ClusterOf(const TfJob& job, const PlanOptions& options) {
  base::ClusterSpec cluster;
  for (const auto& [type, spec] : *job.spec.replicas) {
    const std::string lower = LowerReplicaType(type);
    auto& tasks = cluster.jobs[lower];
    const int count = std::clamp(spec.replicas.value_or(1), 0, kMaxReplicas);
    for (int i = 0; i < count; ++i) {
      const base::Task task{lower, i};
      const int port = TaskPortOf(job, type, i);
      tasks.emplace_hint(
          tasks.end(), i,
          options.address ? options.address(task, port) : DnsAddress(job, task, port, options));
    }
  }
  return cluster;
}

std::string TfConfigFor(const TfJob& job, const base::ClusterSpec& cluster, const base::Task& task,
                        const PlanOptions& options) {
  if (TotalReplicas(job) == 1) return "";
  base::TaskConfig config{.task = task};
  if (job.spec.enable_dynamic_worker) {
    config.sparse = true;
    config.cluster = SparseCluster(cluster, task, options.compat_v19);
  } else {
    config.environment = "cloud";
    config.cluster = cluster;
  }
  for (const auto& [type, replica] : *job.spec.replicas) {
    if (!IsInCluster(type, replica, options)) config.cluster.jobs.erase(LowerReplicaType(type));
  }
  return base::WriteTfConfig(config);
}

Json HostEnv(const base::ClusterSpec& cluster, const base::Task& task) {
  Json env = Json::array();
  const auto add = [&](const char* name, const std::string& value) {
    if (value.size() <= kMaxEnvBytes) env.push_back({{"name", name}, {"value", value}});
  };
  add("JOB_NAME", task.job);
  add("TASK_INDEX", std::to_string(task.index));
  add("PS_HOSTS", base::HostList(cluster, "ps"));
  add("WORKER_HOSTS", base::HostList(cluster, "worker"));
  return env;
}

}  // namespace tfjob
