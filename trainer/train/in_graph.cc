#include "trainer/train/in_graph.h"

#include <utility>

#include "base/exit_codes.h"
#include "trainer/train/train.h"

namespace trainer {

absl::Status RunInGraphClient(const Options& options, const Role& role, Backend& backend,
                              std::stop_token stop) {
  if (role.ps_addresses.empty() || role.cluster.TaskCount("worker") == 0) {
    return base::UsageError(
        "--existing_servers needs parameter servers and workers to drive: give --ps_hosts and "
        "--worker_hosts, or a TF_CONFIG with cluster.ps and cluster.worker");
  }
  if (role.strategy != Strategy::kAsync && role.strategy != Strategy::kSync) {
    return base::UsageError(
        "--existing_servers works with parameter servers only: leave --strategy "
        "at auto or ps");
  }
  if (!role.chief || role.task.job == "worker") {
    return base::UsageError(
        "--existing_servers is for the one process that drives the workers: leave --job_name out "
        "or run it as the chief; a worker that is driven runs `trainer serve`");
  }
  // The client itself trains nothing: only workers count as replicas.
  Role client = role;
  client.rank = 0;
  client.trainers.clear();
  for (const base::Task& task : role.cluster.Tasks()) {
    if (task.job == "worker") client.trainers.push_back(task);
  }
  return RunTraining(options, client, backend, std::move(stop));
}

}  // namespace trainer
