// The one contract between operator and trainer: who is in the cluster and which task this process
// is. Wire forms: TF_CONFIG (static and sparse) and host lists in flags. PURE: no environment, no
// sockets.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace base {

// One process of a job, e.g. {"worker", 1}. Prints as /job:worker/task:1.
struct Task {
  std::string job;  // chief, master, evaluator, ps, worker
  int index = 0;
  bool operator==(const Task&) const = default;
  bool operator<(const Task& other) const {
    return job != other.job ? job < other.job : index < other.index;
  }
};
std::string TaskName(const Task& task);

// Addresses ("host:port") by job and task index. Sparse clusters leave indexes out.
struct ClusterSpec {
  std::map<std::string, std::map<int, std::string>> jobs;

  bool empty() const { return jobs.empty(); }
  int TaskCount(std::string_view job) const;
  // All tasks in order of job name, then index.
  std::vector<Task> Tasks() const;
  // The address of a task, or "" if the cluster does not hold it.
  std::string Address(const Task& task) const;
  bool operator==(const ClusterSpec&) const = default;
};

// A whole TF_CONFIG.
struct TaskConfig {
  ClusterSpec cluster;
  Task task;
  std::string environment;  // "cloud" from the operator; empty in the sparse form
  bool sparse = false;
  bool operator==(const TaskConfig&) const = default;
};

// Writes TF_CONFIG byte for byte as training-operator v1.9 does: keys alphabetical, no spaces.
// Static: {"cluster":{…lists…},"task":{"type":…,"index":…},"environment":"cloud"}.
// Sparse: {"cluster":{"worker":{"1":"h:p"},"ps":[…]},"task":{…}}: worker map before the ps list,
// no environment; "ps":null when the cluster has no ps job at all.
std::string WriteTfConfig(const TaskConfig& config);

// Parses either form; also accepts {"sparseCluster":{…}} in place of "cluster". Errors are
// kInvalidArgument and name the JSON path (`TF_CONFIG: cluster.ps[1]: …`): not JSON, wrong type,
// unknown task type, index out of range, bad host:port, duplicate address.
absl::StatusOr<TaskConfig> ParseTfConfig(std::string_view json);

// Parses "host:port, host:port" (blanks around entries accepted, an optional grpc:// in front of an
// entry dropped). `flag` names the flag in errors. kInvalidArgument: empty entry, bad host:port,
// duplicate, or a value that still carries shell quotes.
absl::StatusOr<std::vector<std::string>> ParseHostList(std::string_view flag,
                                                       std::string_view value);

// "a:1,b:2" for the PS_HOSTS and WORKER_HOSTS variables; "" for a job that is not there.
std::string HostList(const ClusterSpec& cluster, std::string_view job);

// Checks "host:port": host non-empty ([v6] in brackets), port 1…65535. kInvalidArgument otherwise.
absl::Status ValidateAddress(std::string_view address);

}  // namespace base
