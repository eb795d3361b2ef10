// The kubeflow.org/v1 TFJob as values: parsing, defaults, validation. PURE. Pod templates stay raw
// JSON, so that every pod field passes through untouched. REQUIRES for all JSON given: at most ~100
// levels deep.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "operator/api/progress.h"

namespace tfjob {

using Json = nlohmann::json;  // keys sorted, so that output is deterministic

struct ObjectMeta {
  std::string name;
  std::string generate_name;
  std::string namespace_name;  // "" when the manifest names none
  std::string uid;
  std::string resource_version;
  int64_t generation = 0;  // of the spec; 0: not known
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::optional<absl::Time> creation_time;
  std::optional<absl::Time> deletion_time;
  bool operator==(const ObjectMeta&) const = default;
};

struct ReplicaSpec {
  std::optional<int32_t> replicas;  // 1 after SetDefaults
  std::string restart_policy;       // Never after SetDefaults
  Json pod_template;                // PodTemplateSpec; null when absent
  // Additive to v1:
  std::optional<int32_t> backoff_limit;  // restarts of this type alone
  std::string clean_pod_policy;          // of this type; "": the job's
  std::optional<bool> in_cluster_spec;   // TF_CONFIG lists it; Evaluator and types of one's own
  // Workers that may come and go: the bounds of `replicas`, and how many must not fail for good.
  std::optional<int32_t> min_replicas;
  std::optional<int32_t> max_replicas;
  // PersistentVolumeClaims of which each replica gets its own, as in a StatefulSet; null: none.
  Json claim_templates;
  std::string claims_when_deleted;  // the job: Retain, which "" is too, or Delete
  std::string claims_when_scaled;   // down
  bool operator==(const ReplicaSpec&) const = default;
};

struct SchedulingPolicy {
  std::optional<int32_t> min_available;
  std::string queue;
  std::map<std::string, std::string> min_resources;  // resource name → quantity, as written
  std::string priority_class;
  std::optional<int32_t> schedule_timeout_seconds;
  bool operator==(const SchedulingPolicy&) const = default;
};

struct ExitCodeSet {
  bool in = true;  // false: all but the values
  std::set<int> values;
  bool operator==(const ExitCodeSet&) const = default;
};

// One rule of spec.runPolicy.failurePolicy, as in a Job's podFailurePolicy.
struct FailureRule {
  std::string action;                     // FailJob, RestartReplica, RestartJob or Ignore
  std::set<std::string> types;            // canonical after SetDefaults; empty: all
  std::optional<ExitCodeSet> exit_codes;  // of the container `tensorflow`
  // Type → status, any of them. A rule with none of the three matches every failed pod.
  std::map<std::string, std::string> pod_conditions;
  // Speaks of pods that have been Pending for so long instead, and of no failed one.
  std::optional<int32_t> pending_seconds;
  bool counts = true;  // its restarts count towards backoffLimit
  bool operator==(const FailureRule&) const = default;
};

// One rule of spec.runPolicy.successPolicy, as in a Job's: it holds when it does for each type.
struct SuccessRule {
  std::set<std::string> types;   // canonical after SetDefaults
  std::set<int> indexes;         // those that count; empty: all of the type
  std::optional<int32_t> count;  // so many of them have to succeed; absent: all of them
  bool operator==(const SuccessRule&) const = default;
};

struct RunPolicy {
  std::string clean_pod_policy;  // None after SetDefaults
  std::optional<int32_t> ttl_seconds_after_finished;
  std::optional<int64_t> active_deadline_seconds;
  std::optional<int32_t> backoff_limit;
  std::vector<FailureRule> failure_rules;  // the first that matches a failed pod decides
  std::vector<SuccessRule> success_rules;  // in place of spec.successPolicy
  bool suspend = false;
  std::optional<std::string> managed_by;
  std::optional<SchedulingPolicy> scheduling_policy;
  bool operator==(const RunPolicy&) const = default;
};

// Additive: whom to ask for the training's progress (see api/progress_spec.h).
struct ProgressSpec {
  std::optional<int> port;
  std::string port_name;  // of a container port, in place of `port`; both absent: "progress"
  std::optional<int32_t> interval_seconds;
  std::optional<int32_t> stall_seconds;  // without a new step, until the job counts as stalled
  std::string stall_action;              // RestartJob or FailJob; "": the job is left as it is
  bool operator==(const ProgressSpec&) const = default;
};

// Additive: how its pods are reached (see api/network.h).
struct NetworkSpec {
  std::string subdomain;  // name of the one service of all pods; "": each pod has its own
  // Where pods on their node's own network listen; absent: as their template says.
  std::optional<int> min_host_port;
  std::optional<int> max_host_port;
  bool operator==(const NetworkSpec&) const = default;
};

struct TfJobSpec {
  RunPolicy run_policy;
  std::string success_policy;
  bool enable_dynamic_worker = false;
  std::string startup_order;  // additive: InOrder, or AnyOrder, which "" is too
  std::optional<ProgressSpec> progress;
  NetworkSpec network;
  // Keyed as the user spelled it until SetDefaults rewrites the keys to Chief, Master, PS, Worker,
  // Evaluator. nullopt when the manifest has no tfReplicaSpecs at all.
  std::optional<std::map<std::string, ReplicaSpec>> replicas;
  bool operator==(const TfJobSpec&) const = default;
};

struct Condition {
  std::string type;
  std::string status;
  std::string reason;
  std::string message;
  absl::Time last_update_time;
  absl::Time last_transition_time;
  bool operator==(const Condition&) const = default;
};

struct ReplicaStatus {
  int active = 0;
  int succeeded = 0;
  int failed = 0;
  std::string selector;
  int ready = 0;  // additive: those of `active` that are ready
  // Additive to v1: restarts charged so far, and indexes that have succeeded (they never run
  // again).
  int restarts = 0;
  std::set<int> succeeded_indexes;
  bool operator==(const ReplicaStatus&) const = default;
};

// Why one pod failed, for people.
struct PodFailure {
  std::string pod;
  std::string uid;
  std::optional<int> exit_code;  // nullopt: its container never ended
  std::string reason;            // OOMKilled, Error, Evicted …
  std::string message;           // the end of its termination message
  std::optional<absl::Time> time;
  bool operator==(const PodFailure&) const = default;
};

struct TfJobStatus {
  std::vector<Condition> conditions;  // newest change last
  std::map<std::string, ReplicaStatus> replica_statuses;
  std::optional<absl::Time> start_time;
  std::optional<absl::Time> completion_time;
  std::optional<absl::Time> last_reconcile_time;
  int64_t observed_generation = 0;  // additive: of the spec that this status is about
  // Additive: uids of failed pods whose replacement has been charged to the restart count and which
  // may now be deleted (intent before effect), in the order of the charges. Those of pods that are
  // gone stay for a while: an operator that starts may be shown them again, by a list of the past.
  std::vector<std::string> charged_pods;
  // Additive: the first failures and the last, by time.
  std::vector<PodFailure> failures;
  // Additive: its tasks speak TLS with each other; decided once, when the job starts.
  bool task_tls = false;
  // Additive: of the training, as its chief last told it; stays when the job has ended.
  std::optional<ProgressStatus> progress;
  bool operator==(const TfJobStatus&) const = default;
};

struct TfJob {
  ObjectMeta metadata;
  TfJobSpec spec;
  TfJobStatus status;
  bool operator==(const TfJob&) const = default;
};

// What is wrong with one field. `path` as the API server writes it:
// spec.tfReplicaSpecs[Worker].template.spec.containers[0].image
struct FieldError {
  std::string path;
  std::string message;
  std::string type;  // Required, Invalid, Unsupported value, Forbidden, Duplicate value
  bool operator==(const FieldError&) const = default;
};
// "path: type: message".
std::string ToString(const FieldError& error);

struct ParseOptions {
  // Take the flat spec.cleanPodPolicy, spec.backoffLimit … of old manifests when runPolicy lacks
  // them.
  bool flat_run_policy = true;
};

struct ParsedTfJob {
  TfJob job;                       // fields with errors are left at their defaults
  std::vector<FieldError> errors;  // wrong types, out of range numbers, wrong kind or apiVersion
  std::vector<FieldError>
      warnings;  // flat aliases and unknown fields, each with the nearest known name
  bool ok() const { return errors.empty(); }
};

// Total: never fails, never throws; nulls count as absent.
ParsedTfJob FromJson(const Json& json, const ParseOptions& options = {});
// The whole object, without empty fields. FromJson(ToJson(job)).job == job.
Json ToJson(const TfJob& job);
Json StatusToJson(const TfJobStatus& status);

struct DefaultOptions {
  std::string clean_pod_policy = "None";  // upstream's default until v1.5 was Running
  // Where nothing is said of cleaning, parameter servers that still run at the end are removed
  // (v1.9 lets them hold their memory and GPUs).
  bool reclaims_ps = true;
};
// In memory only, as v1 does it: key spelling, replicas 1, restartPolicy Never, cleanPodPolicy (of
// the job, and that of PS), and the tfjob-port of the tensorflow container. Of two keys with one
// meaning the canonical spelling wins.
void SetDefaults(TfJob& job, const DefaultOptions& options = {});

// More replicas of one type than any cluster has: keeps a mistyped number from exhausting memory.
inline constexpr int kMaxReplicas = 100'000;

// All problems of a job at once, in the order of its fields. Takes the job before or after
// SetDefaults.
std::vector<FieldError> Validate(const TfJob& job);
// Additionally what an update may not change: managedBy, schedulingPolicy.queue, network.
std::vector<FieldError> ValidateUpdate(const TfJob& before, const TfJob& after);

// What is allowed but rarely meant, e.g. a job that can never succeed.
std::vector<FieldError> Lint(const TfJob& job);

// Replicas of one (canonical) type, 0 if the job has none of it.
int ReplicaCount(const TfJobSpec& spec, const std::string& type);
// How many of them the job cannot do without: minReplicas of elastic workers, else all.
int RequiredReplicas(const ReplicaSpec& replica);
// What is removed of this (canonical) type at the end: All, Running or None. After SetDefaults.
const std::string& CleanPolicyOf(const TfJobSpec& spec, const std::string& type);
// The container port named tfjob-port of that type's tensorflow container, else 2222.
int PortOf(const ReplicaSpec& replica);
// Index into spec.containers of the tensorflow container, nullopt when there is none.
std::optional<size_t> TensorflowContainer(const Json& pod_template);

}  // namespace tfjob
