#include "base/cluster_spec.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/nearest.h"
#include "base/status_macros.h"

namespace base {
namespace {

using Json = nlohmann::json;

const std::vector<std::string>& KnownJobs() {
  static const auto* const jobs =
      new std::vector<std::string>{"chief", "evaluator", "master", "ps", "worker"};
  return *jobs;
}

bool IsKnownJob(const std::string& job) {
  return std::find(KnownJobs().begin(), KnownJobs().end(), job) != KnownJobs().end();
}

std::string Printed(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status Invalid(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("TF_CONFIG: ", path, path.empty() ? "" : ": ", what));
}

std::string DidYouMean(const std::string& job) {
  const std::string nearest = Nearest(job, KnownJobs());
  return nearest.empty() ? absl::StrCat(" (known: ", absl::StrJoin(KnownJobs(), ", "), ")")
                         : absl::StrCat("; did you mean \"", nearest, "\"?");
}

// A task index written as decimal digits, e.g. the keys of a sparse worker map.
std::optional<int> ParseIndex(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0) {
    return std::nullopt;
  }
  return value;
}

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
}

bool IsV6Character(char c) {
  return absl::ascii_isxdigit(static_cast<unsigned char>(c)) || c == ':' || c == '.' || c == '%';
}

absl::Status BadAddress(std::string_view address, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat(Printed(Json(std::string(address))), " is not host:port: ", why));
}

// Reads one TF_CONFIG; a class only so that its steps share the cluster being built.
class TfConfigParser {
 public:
  absl::StatusOr<TaskConfig> Parse(const Json& root) {
    if (!root.is_object()) return Invalid("", "must be a JSON object");
    RETURN_IF_ERROR(ParseCluster(root));
    RETURN_IF_ERROR(ParseTask(root));
    if (const auto it = root.find("environment"); it != root.end() && !it->is_null()) {
      if (!it->is_string()) return Invalid("environment", "must be a string");
      config_.environment = it->get<std::string>();
    }
    RETURN_IF_ERROR(CheckMembership());
    return std::move(config_);
  }

 private:
  absl::Status ParseCluster(const Json& root) {
    const bool named_sparse = root.contains("sparseCluster");
    if (named_sparse && root.contains("cluster")) {
      return Invalid("sparseCluster", "give either cluster or sparseCluster, not both");
    }
    cluster_path_ = named_sparse ? "sparseCluster" : "cluster";
    config_.sparse = named_sparse;
    const auto it = root.find(cluster_path_);
    if (it == root.end() || it->is_null()) return absl::OkStatus();  // one process, no cluster
    if (!it->is_object()) return Invalid(cluster_path_, "must be an object of jobs");
    for (const auto& [job, hosts] : it->items()) {
      RETURN_IF_ERROR(ParseJob(job, hosts));
    }
    return absl::OkStatus();
  }

  absl::Status ParseJob(const std::string& job, const Json& hosts) {
    const std::string path = absl::StrCat(cluster_path_, ".", job);
    if (!IsKnownJob(job) && !Nearest(job, KnownJobs()).empty()) {
      return Invalid(path, absl::StrCat("unknown job name", DidYouMean(job)));
    }
    if (hosts.is_null()) {
      config_.sparse = config_.sparse || job == "ps";
      return absl::OkStatus();
    }
    auto& tasks = config_.cluster.jobs[job];
    if (hosts.is_array()) {
      for (size_t i = 0; i < hosts.size(); ++i) {
        ASSIGN_OR_RETURN(tasks[static_cast<int>(i)],
                         ParseAddress(absl::StrCat(path, "[", i, "]"), hosts[i]));
      }
      return absl::OkStatus();
    }
    if (!hosts.is_object()) {
      return Invalid(path, "must be a list of host:port, or a map from index to host:port");
    }
    config_.sparse = true;
    for (const auto& [key, address] : hosts.items()) {
      const std::string entry_path = absl::StrCat(path, "[", key, "]");
      const std::optional<int> index = ParseIndex(key);
      if (!index) return Invalid(entry_path, "the key must be a task index, 0 or more");
      ASSIGN_OR_RETURN(tasks[*index], ParseAddress(entry_path, address));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ParseAddress(const std::string& path, const Json& value) {
    if (!value.is_string()) return Invalid(path, "must be a string host:port");
    std::string address = value.get<std::string>();
    if (const absl::Status status = ValidateAddress(address); !status.ok()) {
      return Invalid(path, std::string(status.message()));
    }
    const auto [it, fresh] = seen_.emplace(address, path);
    if (!fresh) {
      return Invalid(path, absl::StrCat("duplicate address ", address, ", also at ", it->second));
    }
    return address;
  }

  absl::Status ParseTask(const Json& root) {
    const auto it = root.find("task");
    if (it == root.end() || it->is_null()) {
      if (config_.cluster.empty()) return absl::OkStatus();
      return Invalid("task", R"(missing; write "task":{"type":"worker","index":0})");
    }
    if (!it->is_object()) return Invalid("task", "must be an object with type and index");
    const auto type = it->find("type");
    if (type == it->end()) return Invalid("task.type", "missing");
    if (!type->is_string()) return Invalid("task.type", "must be a string");
    config_.task.job = type->get<std::string>();
    if (!IsKnownJob(config_.task.job)) {
      return Invalid("task.type", absl::StrCat("unknown task type ", Printed(*type),
                                               DidYouMean(config_.task.job)));
    }
    const auto index = it->find("index");
    if (index == it->end()) return Invalid("task.index", "missing");
    return ParseTaskIndex(*index);
  }

  // TensorFlow calls int() on it, so digits in a string pass there and here.
  absl::Status ParseTaskIndex(const Json& index) {
    std::optional<int> value;
    if (index.is_number_integer()) value = ParseIndex(Printed(index));
    if (index.is_string()) value = ParseIndex(index.get<std::string>());
    if (!value) return Invalid("task.index", "must be an integer, 0 or more");
    config_.task.index = *value;
    return absl::OkStatus();
  }

  // The task must be in its cluster. Exceptions, all sent by operators in the field: an evaluator
  // outside the cluster; a chief or evaluator in a sparse cluster; a sparse ps, which is told only
  // its own address, at the front of the list.
  absl::Status CheckMembership() {
    const Task& task = config_.task;
    if (config_.cluster.empty()) return absl::OkStatus();
    const auto it = config_.cluster.jobs.find(task.job);
    if (it == config_.cluster.jobs.end()) {
      const bool may_be_outside =
          task.job == "evaluator" || (config_.sparse && task.job != "ps" && task.job != "worker");
      if (may_be_outside) return absl::OkStatus();
      return Invalid("task.type", absl::StrCat("the cluster has no job \"", task.job, "\""));
    }
    auto& tasks = it->second;
    if (config_.sparse && task.job == "ps" && tasks.size() == 1 && !tasks.contains(task.index)) {
      tasks = {{task.index, tasks.begin()->second}};
    }
    if (tasks.contains(task.index)) return absl::OkStatus();
    return Invalid("task.index", absl::StrCat(task.index, " is out of range: the cluster has ",
                                              tasks.size(), " ", task.job, " task(s)"));
  }

  TaskConfig config_;
  std::string cluster_path_;
  std::map<std::string, std::string> seen_;  // address → path
};

std::string JsonAddressList(const std::map<int, std::string>& tasks) {
  Json list = Json::array();
  for (const auto& [index, address] : tasks) list.push_back(address);
  return Printed(list);
}

// A list where the positions tell the indexes, else a map.
std::string JsonAddresses(const std::map<int, std::string>& tasks) {
  if (tasks.empty() || tasks.rbegin()->first == static_cast<int>(tasks.size()) - 1) {
    return JsonAddressList(tasks);
  }
  Json map = Json::object();
  for (const auto& [index, address] : tasks) map[std::to_string(index)] = address;
  return Printed(map);
}

std::string SparseClusterJson(const ClusterSpec& cluster) {
  std::string out = "{";
  // Not in the upstream form; in front, so that the rest of the text keeps its shape.
  for (const auto& [job, tasks] : cluster.jobs) {
    if (job == "worker" || job == "ps") continue;
    absl::StrAppend(&out, Printed(Json(job)), ":", JsonAddresses(tasks), ",");
  }
  Json workers = Json::object();
  if (const auto it = cluster.jobs.find("worker"); it != cluster.jobs.end()) {
    for (const auto& [index, address] : it->second) workers[std::to_string(index)] = address;
  }
  std::string ps = "null";
  if (const auto it = cluster.jobs.find("ps"); it != cluster.jobs.end()) {
    // A ps that is told only itself gets a list of one, whatever its index.
    ps = it->second.size() == 1 ? JsonAddressList(it->second) : JsonAddresses(it->second);
  }
  return absl::StrCat(out, "\"worker\":", Printed(workers), ",\"ps\":", ps, "}");
}

std::string StaticClusterJson(const ClusterSpec& cluster) {
  std::vector<std::string> jobs;
  for (const auto& [job, tasks] : cluster.jobs) {
    jobs.push_back(absl::StrCat(Printed(Json(job)), ":", JsonAddressList(tasks)));
  }
  return absl::StrCat("{", absl::StrJoin(jobs, ","), "}");
}

}  // namespace

std::string TaskName(const Task& task) {
  return absl::StrCat("/job:", task.job, "/task:", task.index);
}

int ClusterSpec::TaskCount(std::string_view job) const {
  const auto it = jobs.find(std::string(job));
  return it == jobs.end() ? 0 : static_cast<int>(it->second.size());
}

std::vector<Task> ClusterSpec::Tasks() const {
  std::vector<Task> tasks;
  for (const auto& [job, addresses] : jobs) {
    for (const auto& [index, address] : addresses) tasks.push_back({job, index});
  }
  return tasks;
}

std::string ClusterSpec::Address(const Task& task) const {
  const auto job = jobs.find(task.job);
  if (job == jobs.end()) return "";
  const auto it = job->second.find(task.index);
  return it == job->second.end() ? "" : it->second;
}

std::string WriteTfConfig(const TaskConfig& config) {
  std::string out = absl::StrCat(
      "{\"cluster\":",
      config.sparse ? SparseClusterJson(config.cluster) : StaticClusterJson(config.cluster),
      ",\"task\":{\"type\":", Printed(Json(config.task.job)), ",\"index\":", config.task.index,
      "}");
  if (!config.sparse) {
    absl::StrAppend(&out, ",\"environment\":", Printed(Json(config.environment)));
  }
  return out + "}";
}

absl::StatusOr<TaskConfig> ParseTfConfig(std::string_view json) {
  const Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) {
    return Invalid("", absl::StrCat("is not JSON: ", Printed(Json(std::string(json.substr(0, 80)))),
                                    json.size() > 80 ? "…" : ""));
  }
  return TfConfigParser().Parse(root);
}

absl::StatusOr<std::vector<std::string>> ParseHostList(std::string_view flag,
                                                       std::string_view value) {
  const auto invalid = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(flag), ": ", what));
  };
  if (value.find_first_of("'\"") != std::string_view::npos) {
    return invalid(absl::StrCat("the value still carries shell quotes: ", std::string(value),
                                "; remove them"));
  }
  std::vector<std::string> hosts;
  std::set<std::string> seen;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(value.data(), value.size()), ',')) {
    std::string host(absl::StripAsciiWhitespace(part));
    if (host.starts_with("grpc://")) host.erase(0, 7);
    if (host.empty()) {
      return invalid(absl::StrCat("entry ", hosts.size(), " is empty; write host:port,host:port"));
    }
    if (const absl::Status status = ValidateAddress(host); !status.ok()) {
      return invalid(absl::StrCat("entry ", hosts.size(), ": ", status.message()));
    }
    if (!seen.insert(host).second) {
      return invalid(absl::StrCat("entry ", hosts.size(), ": duplicate address ", host));
    }
    hosts.push_back(std::move(host));
  }
  return hosts;
}

std::string HostList(const ClusterSpec& cluster, std::string_view job) {
  const auto it = cluster.jobs.find(std::string(job));
  if (it == cluster.jobs.end()) return "";
  return absl::StrJoin(it->second, ",", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.second);
  });
}

absl::Status ValidateAddress(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return BadAddress(address, "it has no port");
  std::string_view host = address.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty()) return BadAddress(address, "it has no host");
  if (!std::all_of(host.begin(), host.end(), bracketed ? IsV6Character : IsNameCharacter)) {
    return BadAddress(address, host.find(':') != std::string_view::npos && !bracketed
                                   ? "an IPv6 host must stand in brackets"
                                   : "the host has a character that no host name has");
  }
  const std::optional<int> port = ParseIndex(address.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535) {
    return BadAddress(address, "the port must be a number from 1 to 65535");
  }
  return absl::OkStatus();
}

}  // namespace base
