#include "trainer/train/role.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"

namespace trainer {
namespace {

absl::Status TakeHosts(std::string_view flag, const std::string& value, const std::string& job,
                       Role& role) {
  if (value.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> hosts, base::ParseHostList(flag, value));
  std::map<int, std::string> tasks;
  for (size_t i = 0; i < hosts.size(); ++i) tasks[static_cast<int>(i)] = hosts[i];
  auto& known = role.cluster.jobs[job];
  if (!known.empty() && known != tasks) {
    role.warnings.push_back(
        absl::StrCat(std::string(flag), " overrides cluster.", job, " of TF_CONFIG"));
  }
  known = std::move(tasks);
  return absl::OkStatus();
}

absl::Status CheckNoDuplicates(const base::ClusterSpec& cluster) {
  std::map<std::string, base::Task> seen;
  for (const base::Task& task : cluster.Tasks()) {
    const auto [it, inserted] = seen.emplace(cluster.Address(task), task);
    if (!inserted) {
      return base::UsageError(absl::StrCat("address ", it->first, " is given to both ",
                                           base::TaskName(it->second), " and ",
                                           base::TaskName(task)));
    }
  }
  return absl::OkStatus();
}

bool IsChiefJob(std::string_view job) { return job == "chief" || job == "master"; }

// The classic evaluator sits outside the cluster that trains, so TF_CONFIG need not list it.
absl::Status CheckTask(Role& role) {
  if (role.task.job == "evaluator") return absl::OkStatus();
  const int count = role.cluster.TaskCount(role.task.job);
  role.address = role.cluster.Address(role.task);
  if (!role.address.empty()) return absl::OkStatus();
  if (count == 0) {
    return base::UsageError(absl::StrCat("--job_name=", role.task.job, ": the cluster has no ",
                                         role.task.job, " tasks; give --", role.task.job,
                                         "_hosts or TF_CONFIG"));
  }
  return base::UsageError(absl::StrCat("--task_index=", role.task.index, " is out of range: job ",
                                       role.task.job, " has ", count, " tasks (0 … ", count - 1,
                                       ")"));
}

void RankTrainers(Role& role) {
  for (const char* job : {"chief", "master", "worker"}) {
    for (const base::Task& task : role.cluster.Tasks()) {
      if (task.job == job) role.trainers.push_back(task);
    }
  }
  const auto self = std::find(role.trainers.begin(), role.trainers.end(), role.task);
  role.rank = self == role.trainers.end() ? 0 : static_cast<int>(self - role.trainers.begin());
  const bool dedicated = role.cluster.TaskCount("chief") + role.cluster.TaskCount("master") > 0;
  role.chief = IsChiefJob(role.task.job) ||
               (!dedicated && role.task.job == "worker" && role.task.index == 0);
}

absl::Status ChooseStrategy(const Options& options, Role& role) {
  const bool has_ps = role.cluster.TaskCount("ps") > 0;
  for (const base::Task& task : role.cluster.Tasks()) {
    if (task.job == "ps") role.ps_addresses.push_back(role.cluster.Address(task));
  }
  const bool wants_ps = options.strategy == "ps" || options.sync_replicas;
  if (wants_ps && !has_ps) {
    return base::UsageError(absl::StrCat(
        options.sync_replicas ? "--sync_replicas" : "--strategy=ps",
        " needs at least one parameter server: give --ps_hosts or a TF_CONFIG with cluster.ps"));
  }
  if (options.strategy == "local" || role.cluster.empty()) {
    role.strategy = Strategy::kLocal;
  } else if (options.strategy == "allreduce" || !has_ps) {
    role.strategy = role.trainers.size() > 1 ? Strategy::kAllreduce : Strategy::kLocal;
  } else {
    role.strategy = options.sync_replicas ? Strategy::kSync : Strategy::kAsync;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Role> ResolveRole(const Options& options, std::string_view tf_config, bool client) {
  Role role;
  role.task = {"worker", 0};
  if (!tf_config.empty()) {
    ASSIGN_OR_RETURN(base::TaskConfig config, base::ParseTfConfig(tf_config));
    role.cluster = std::move(config.cluster);
    role.task = std::move(config.task);
  }
  RETURN_IF_ERROR(TakeHosts("--ps_hosts", options.ps_hosts, "ps", role));
  RETURN_IF_ERROR(TakeHosts("--worker_hosts", options.worker_hosts, "worker", role));
  RETURN_IF_ERROR(TakeHosts("--chief_hosts", options.chief_hosts, "chief", role));
  if (!options.job_name.empty()) {
    if (!tf_config.empty() && role.task.job != options.job_name) {
      role.warnings.push_back("--job_name overrides task.type of TF_CONFIG");
    }
    role.task.job = options.job_name;
    if (options.task_index < 0 && tf_config.empty() && role.cluster.TaskCount(role.task.job) > 1) {
      return base::UsageError(absl::StrCat("--job_name=", role.task.job,
                                           " needs --task_index: the job has ",
                                           role.cluster.TaskCount(role.task.job), " tasks"));
    }
  }
  if (options.task_index >= 0) {
    if (!tf_config.empty() && role.task.index != options.task_index) {
      role.warnings.push_back("--task_index overrides task.index of TF_CONFIG");
    }
    role.task.index = options.task_index;
  }
  if (!role.cluster.empty()) {
    RETURN_IF_ERROR(CheckNoDuplicates(role.cluster));
    // The in-graph client stands outside the cluster that it drives.
    const bool outside =
        (client || options.existing_servers) && options.job_name.empty() && tf_config.empty();
    if (outside) role.task = {"client", 0};
    if (!outside) RETURN_IF_ERROR(CheckTask(role));
    RankTrainers(role);
    role.chief = role.chief || outside;
  } else if (role.task.job == "ps") {
    return base::UsageError(
        "--job_name=ps: the cluster has no ps tasks; give --ps_hosts or TF_CONFIG");
  }
  RETURN_IF_ERROR(ChooseStrategy(options, role));
  return role;
}

std::string ListenAddress(std::string_view address) {
  const size_t colon = address.rfind(':');
  const std::string_view host = address.substr(0, colon);
  const std::string port(address.substr(colon + 1));
  if (host == "localhost") return absl::StrCat("127.0.0.1:", port);
  if (absl::StartsWith(std::string(host), "127.") || host == "[::1]") return std::string(address);
  return absl::StrCat("[::]:", port);
}

}  // namespace trainer
