#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest.h"
#include "operator/api/claims.h"
#include "operator/api/failure_policy.h"
#include "operator/api/names.h"
#include "operator/api/network.h"
#include "operator/api/progress_spec.h"
#include "operator/api/quantity.h"
#include "operator/api/success_policy.h"
#include "operator/api/tfjob.h"

namespace tfjob {
namespace {

constexpr size_t kMaxNameLength = 63;   // of a DNS label, hence of services and of label values
constexpr size_t kGeneratedSuffix = 5;  // characters that the API server appends to generateName
constexpr int64_t kMaxEnvBytes = 128 * 1024;  // Linux: MAX_ARG_STRLEN, of one environment variable
constexpr char kReplicasPath[] = "spec.tfReplicaSpecs";

using Errors = std::vector<FieldError>;

const std::vector<std::string>& KnownTypes() {
  static const auto* const types =
      new std::vector<std::string>{kChief, kEvaluator, kMaster, kPs, kWorker};
  return *types;
}

// The allowed value that was probably meant: differs in case only, or is near.
std::string Meant(const std::string& value, const std::vector<std::string>& allowed) {
  std::vector<std::string> lower;
  for (const std::string& candidate : allowed) lower.push_back(absl::AsciiStrToLower(candidate));
  const std::string nearest = base::Nearest(absl::AsciiStrToLower(value), lower);
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (lower[i] == nearest && !nearest.empty()) return allowed[i];
  }
  return "";
}

void CheckEnum(const std::string& path, const std::string& value,
               const std::vector<std::string>& allowed, Errors& errors) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  const std::string meant = Meant(value, allowed);
  std::vector<std::string> shown = allowed;
  for (std::string& entry : shown) entry = entry.empty() ? "\"\"" : entry;
  errors.push_back({path,
                    absl::StrCat("\"", value, "\": must be one of ", absl::StrJoin(shown, ", "),
                                 meant.empty() ? "" : absl::StrCat("; did you mean ", meant, "?")),
                    "Unsupported value"});
}

void CheckName(const ObjectMeta& meta, Errors& errors) {
  if (meta.name.empty() && meta.generate_name.empty()) {
    errors.push_back({"metadata.name", "name or generateName must be given", "Required value"});
    return;
  }
  const bool generated = meta.name.empty();
  const std::string name = generated ? meta.generate_name + "00000" : meta.name;
  if (IsDns1035Label(name)) return;
  errors.push_back({generated ? "metadata.generateName" : "metadata.name",
                    absl::StrCat("\"", generated ? meta.generate_name : meta.name,
                                 "\": should match: a DNS-1035 label must consist of lower case "
                                 "letters, digits and '-', begin with a letter, not end with '-' "
                                 "and have at most ",
                                 kMaxNameLength, " characters"),
                    "Invalid value"});
}

// Names of pods and services are derived from the job's name and must be DNS labels too.
void CheckDerivedNames(const TfJob& job, Errors& errors) {
  const bool generated = job.metadata.name.empty();
  const std::string name = generated
                               ? job.metadata.generate_name + std::string(kGeneratedSuffix, 'x')
                               : job.metadata.name;
  if (name.size() > kMaxNameLength) return;  // CheckName says so
  std::string longest;
  for (const auto& [type, replica] : *job.spec.replicas) {
    const int last = std::max(0, replica.replicas.value_or(1) - 1);
    const std::string child = ReplicaName(name, type, last);
    if (child.size() > longest.size()) longest = child;
  }
  if (longest.size() <= kMaxNameLength) return;
  errors.push_back(
      {generated ? "metadata.generateName" : "metadata.name",
       absl::StrCat("too long: the pod \"", longest, "\" would have ", longest.size(),
                    " characters, at most ", kMaxNameLength, " are allowed; shorten the name by ",
                    longest.size() - kMaxNameLength),
       "Invalid value"});
}

// TF_CONFIG lists every peer, and a program cannot be started with too long a variable.
void CheckClusterSize(const TfJob& job, Errors& errors) {
  const std::string name_space =
      job.metadata.namespace_name.empty() ? "default" : job.metadata.namespace_name;
  int64_t bytes = 0;
  for (const auto& [type, replica] : *job.spec.replicas) {
    if (job.spec.enable_dynamic_worker && CanonicalReplicaType(type) != kPs) continue;
    const int64_t count = std::max(0, replica.replicas.value_or(1));
    const std::string address = absl::StrCat(HostOf(job, type, 0), ".", name_space, ".svc:2222");
    bytes += count * static_cast<int64_t>(address.size() + 3);  // quotes and comma
  }
  if (bytes <= kMaxEnvBytes) return;
  errors.push_back({kReplicasPath,
                    absl::StrCat("too many replicas: TF_CONFIG would have about ", bytes,
                                 " bytes, at most ", kMaxEnvBytes,
                                 " can be passed to a program; use fewer replicas, shorter names "
                                 "or enableDynamicWorker"),
                    "Invalid value"});
}

void CheckNotNegative(const std::string& path, const std::optional<int32_t>& value,
                      Errors& errors) {
  if (!value || *value >= 0) return;
  errors.push_back({path, absl::StrCat(*value, ": must be 0 or more"), "Invalid value"});
}

void CheckRunPolicy(const RunPolicy& policy, Errors& errors) {
  if (!policy.clean_pod_policy.empty()) {
    CheckEnum("spec.runPolicy.cleanPodPolicy", policy.clean_pod_policy,
              {kCleanAll, kCleanRunning, kCleanNone}, errors);
  }
  CheckNotNegative("spec.runPolicy.ttlSecondsAfterFinished", policy.ttl_seconds_after_finished,
                   errors);
  if (policy.active_deadline_seconds && *policy.active_deadline_seconds <= 0) {
    errors.push_back({"spec.runPolicy.activeDeadlineSeconds",
                      absl::StrCat(*policy.active_deadline_seconds, ": must be positive"),
                      "Invalid value"});
  }
  CheckNotNegative("spec.runPolicy.backoffLimit", policy.backoff_limit, errors);
  if (policy.managed_by) {
    CheckEnum("spec.runPolicy.managedBy", *policy.managed_by, {kManagedByUs, kManagedByMultiKueue},
              errors);
  }
  if (policy.scheduling_policy) {
    CheckNotNegative("spec.runPolicy.schedulingPolicy.minAvailable",
                     policy.scheduling_policy->min_available, errors);
    CheckNotNegative("spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
                     policy.scheduling_policy->schedule_timeout_seconds, errors);
    for (const auto& [resource, quantity] : policy.scheduling_policy->min_resources) {
      if (ParseQuantity(quantity).ok()) continue;
      errors.push_back(
          {absl::StrCat("spec.runPolicy.schedulingPolicy.minResources[", resource, "]"),
           absl::StrCat("\"", quantity, "\" is no quantity; write e.g. 2, 500m or 1Gi"),
           "Invalid value"});
    }
  }
}

bool HasValue(const Json& object, const char* key) {
  if (!object.is_object()) return false;
  const auto it = object.find(key);
  return it != object.end() && !it->is_null() && *it != Json("");
}

void CheckContainers(const std::string& path, const Json& pod_template, Errors& errors) {
  const Json* containers = nullptr;
  if (pod_template.is_object() && HasValue(pod_template, "spec")) {
    const Json& spec = pod_template["spec"];
    if (HasValue(spec, "containers") && spec["containers"].is_array()) {
      containers = &spec["containers"];
    }
  }
  const size_t count = containers == nullptr ? 0 : containers->size();
  if (count == 0) errors.push_back({path, "must be specified", "Required value"});
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) {
    const Json& container = (*containers)[i];
    const std::string at = absl::StrCat(path, "[", i, "]");
    if (!HasValue(container, "image")) {
      errors.push_back({at + ".image", "must be required", "Required value"});
    }
    if (!HasValue(container, "name") || !container["name"].is_string()) continue;
    const std::string name = container["name"].get<std::string>();
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      errors.push_back({at + ".name", absl::StrCat("\"", name, "\""), "Duplicate value"});
    }
    names.push_back(name);
  }
  if (TensorflowContainer(pod_template)) return;
  const std::string nearest = base::Nearest(kContainerName, names);
  errors.push_back(
      {path,
       absl::StrCat("must have at least one container with name tensorflow",
                    nearest.empty() ? "" : absl::StrCat("; \"", nearest, "\" is nearly it")),
       "Required value"});
}

// Workers alone may come and go.
void CheckElastic(const std::string& path, const std::string& type, const ReplicaSpec& replica,
                  Errors& errors) {
  const std::optional<int32_t>& min = replica.min_replicas;
  const std::optional<int32_t>& max = replica.max_replicas;
  if (!min && !max) return;
  CheckNotNegative(path + ".minReplicas", min, errors);
  if (type != kWorker) {
    errors.push_back({path + (min ? ".minReplicas" : ".maxReplicas"),
                      absl::StrCat("only Worker can be elastic, not ", type), "Forbidden"});
  }
  if (min && max && *min > *max) {
    errors.push_back({path + ".maxReplicas",
                      absl::StrCat(*max, ": must not be below minReplicas, which is ", *min),
                      "Invalid value"});
    return;
  }
  const int32_t replicas = replica.replicas.value_or(1);
  if (replicas < min.value_or(replicas) || replicas > max.value_or(replicas)) {
    errors.push_back(
        {path + ".replicas",
         absl::StrCat(replicas, ": must be ", min ? absl::StrCat("at least ", *min) : "",
                      min && max ? " and " : "", max ? absl::StrCat("at most ", *max) : "",
                      ", as minReplicas and maxReplicas say"),
         "Invalid value"});
  }
}

void CheckReplica(const std::string& key, const ReplicaSpec& replica, Errors& errors) {
  const std::string path = absl::StrCat(kReplicasPath, "[", key, "]");
  const std::string type = CanonicalReplicaType(key);
  if (const std::string meant = IsKnownReplicaType(type) ? "" : Meant(key, KnownTypes());
      !meant.empty()) {
    errors.push_back(
        {path, absl::StrCat("\"", key, "\": did you mean ", meant, "?"), "Unsupported value"});
  }
  CheckNotNegative(path + ".replicas", replica.replicas, errors);
  CheckNotNegative(path + ".backoffLimit", replica.backoff_limit, errors);
  if (!replica.clean_pod_policy.empty()) {
    CheckEnum(path + ".cleanPodPolicy", replica.clean_pod_policy,
              {kCleanAll, kCleanRunning, kCleanNone}, errors);
  }
  if (replica.in_cluster_spec && (IsChiefLike(type) || type == kPs || type == kWorker)) {
    errors.push_back({path + ".inClusterSpec",
                      absl::StrCat(type,
                                   " is always in the cluster spec; only Evaluator and types "
                                   "of your own can be left out"),
                      "Forbidden"});
  }
  CheckElastic(path, type, replica, errors);
  CheckClaims(path, replica, errors);
  if (replica.replicas && *replica.replicas > kMaxReplicas) {
    errors.push_back({path + ".replicas",
                      absl::StrCat(*replica.replicas, ": must be at most ", kMaxReplicas),
                      "Invalid value"});
  }
  if (!replica.restart_policy.empty()) {
    CheckEnum(path + ".restartPolicy", replica.restart_policy,
              {kRestartAlways, kRestartOnFailure, kRestartNever, kRestartExitCode}, errors);
  }
  CheckContainers(path + ".template.spec.containers", replica.pod_template, errors);
}

void CheckReplicas(const std::map<std::string, ReplicaSpec>& replicas, Errors& errors) {
  if (replicas.empty()) {
    errors.push_back(
        {kReplicasPath, "must have at least one replica type, e.g. Worker", "Required value"});
  }
  std::map<std::string, std::string> first_spelling;
  for (const auto& [key, replica] : replicas) {
    const auto [it, fresh] = first_spelling.emplace(CanonicalReplicaType(key), key);
    if (!fresh) {
      errors.push_back({absl::StrCat(kReplicasPath, "[", key, "]"),
                        absl::StrCat("the same replica type as ", it->second), "Duplicate value"});
    }
    CheckReplica(key, replica, errors);
  }
  if (first_spelling.contains(kChief) && first_spelling.contains(kMaster)) {
    errors.push_back(
        {kReplicasPath, "must not have more than 1 Chief or Master role", "Forbidden"});
  }
}

}  // namespace

std::string ToString(const FieldError& error) {
  return absl::StrCat(error.path, error.path.empty() ? "" : ": ", error.type, ": ", error.message);
}

std::vector<FieldError> Validate(const TfJob& job) {
  Errors errors;
  CheckName(job.metadata, errors);
  CheckRunPolicy(job.spec.run_policy, errors);
  CheckFailurePolicy(job.spec, errors);
  CheckSuccessPolicy(job.spec, errors);
  CheckEnum("spec.successPolicy", job.spec.success_policy, {kSuccessDefault, kSuccessAllWorkers},
            errors);
  if (!job.spec.startup_order.empty()) {
    CheckEnum("spec.startupPolicy.startupPolicyOrder", job.spec.startup_order,
              {kAnyOrder, kInOrder}, errors);
  }
  if (job.spec.progress) CheckProgressSpec(*job.spec.progress, errors);
  CheckNetworkSpec(job.spec, errors);
  if (!job.spec.replicas) {
    errors.push_back({kReplicasPath, "must be required", "Required value"});
    return errors;
  }
  CheckDerivedNames(job, errors);
  CheckClusterSize(job, errors);
  CheckReplicas(*job.spec.replicas, errors);
  return errors;
}

std::vector<FieldError> ValidateUpdate(const TfJob& before, const TfJob& after) {
  Errors errors = Validate(after);
  const RunPolicy& old_policy = before.spec.run_policy;
  const RunPolicy& new_policy = after.spec.run_policy;
  if (old_policy.managed_by != new_policy.managed_by) {
    errors.push_back(
        {"spec.runPolicy.managedBy",
         absl::StrCat("\"", new_policy.managed_by.value_or(""), "\": field is immutable"),
         "Invalid value"});
  }
  if (old_policy.scheduling_policy && new_policy.scheduling_policy &&
      old_policy.scheduling_policy->queue != new_policy.scheduling_policy->queue) {
    errors.push_back({"spec.runPolicy.schedulingPolicy.queue",
                      "spec.runPolicy.schedulingPolicy.queue is immutable", "Invalid value"});
  }
  if (before.spec.network != after.spec.network) {
    errors.push_back({"spec.network", "field is immutable", "Invalid value"});
  }
  return errors;
}

std::vector<FieldError> Lint(const TfJob& job) {
  std::vector<FieldError> warnings;
  if (!job.spec.replicas) return warnings;
  bool can_succeed = false;
  for (const auto& [key, replica] : *job.spec.replicas) {
    const std::string path = absl::StrCat(kReplicasPath, "[", key, "]");
    const std::string type = CanonicalReplicaType(key);
    can_succeed = can_succeed || IsChiefLike(type) || type == kWorker;
    if (!IsKnownReplicaType(type)) {
      warnings.push_back({path,
                          "not a replica type of TFJob: its pods are created, but they "
                          "decide nothing about success or failure",
                          "Warning"});
    }
    const Json pod_spec = replica.pod_template.is_object()
                              ? replica.pod_template.value("spec", Json::object())
                              : Json::object();
    if (HasValue(pod_spec, "restartPolicy")) {
      warnings.push_back({path + ".template.spec.restartPolicy",
                          absl::StrCat("is overwritten by ", path, ".restartPolicy"), "Warning"});
    }
  }
  LintNetwork(job.spec, warnings);
  LintSuccessPolicy(job.spec, warnings);
  can_succeed = can_succeed || !job.spec.run_policy.success_rules.empty();
  if (!can_succeed && !job.spec.replicas->empty()) {
    warnings.push_back({kReplicasPath,
                        "a job without Chief, Master or Worker never succeeds: nothing ends it",
                        "Warning"});
  }
  return warnings;
}

}  // namespace tfjob
