#include "base/clock.h"
#include "operator/api/claims.h"
#include "operator/api/failure_policy.h"
#include "operator/api/indexes.h"
#include "operator/api/names.h"
#include "operator/api/network.h"
#include "operator/api/progress_spec.h"
#include "operator/api/success_policy.h"
#include "operator/api/tfjob.h"

namespace tfjob {
namespace {

void Put(Json& object, const char* key, const std::string& value) {
  if (!value.empty()) object[key] = value;
}

void Put(Json& object, const char* key, const std::map<std::string, std::string>& value) {
  if (!value.empty()) object[key] = value;
}

void Put(Json& object, const char* key, const std::optional<absl::Time>& value) {
  if (value) object[key] = base::TimeText(*value);
}

template <typename Number>
void Put(Json& object, const char* key, const std::optional<Number>& value) {
  if (value) object[key] = *value;
}

void PutCount(Json& object, const char* key, int64_t value) {
  if (value != 0) object[key] = value;
}

Json MetadataToJson(const ObjectMeta& meta) {
  Json out = Json::object();
  Put(out, "name", meta.name);
  Put(out, "generateName", meta.generate_name);
  Put(out, "namespace", meta.namespace_name);
  Put(out, "uid", meta.uid);
  Put(out, "resourceVersion", meta.resource_version);
  PutCount(out, "generation", meta.generation);
  Put(out, "labels", meta.labels);
  Put(out, "annotations", meta.annotations);
  Put(out, "creationTimestamp", meta.creation_time);
  Put(out, "deletionTimestamp", meta.deletion_time);
  return out;
}

Json SchedulingPolicyToJson(const SchedulingPolicy& policy) {
  Json out = Json::object();
  Put(out, "minAvailable", policy.min_available);
  Put(out, "queue", policy.queue);
  Put(out, "minResources", policy.min_resources);
  Put(out, "priorityClass", policy.priority_class);
  Put(out, "scheduleTimeoutSeconds", policy.schedule_timeout_seconds);
  return out;
}

Json FailureToJson(const PodFailure& failure) {
  Json out = {{"pod", failure.pod}, {"uid", failure.uid}};
  Put(out, "exitCode", failure.exit_code);
  Put(out, "reason", failure.reason);
  Put(out, "message", failure.message);
  Put(out, "time", failure.time);
  return out;
}

Json RunPolicyToJson(const RunPolicy& policy) {
  Json out = Json::object();
  Put(out, "cleanPodPolicy", policy.clean_pod_policy);
  Put(out, "ttlSecondsAfterFinished", policy.ttl_seconds_after_finished);
  Put(out, "activeDeadlineSeconds", policy.active_deadline_seconds);
  Put(out, "backoffLimit", policy.backoff_limit);
  if (!policy.failure_rules.empty()) {
    out["failurePolicy"] = FailurePolicyToJson(policy.failure_rules);
  }
  if (!policy.success_rules.empty()) {
    out["successPolicy"] = SuccessPolicyToJson(policy.success_rules);
  }
  if (policy.suspend) out["suspend"] = true;
  if (policy.managed_by) out["managedBy"] = *policy.managed_by;
  if (policy.scheduling_policy) {
    out["schedulingPolicy"] = SchedulingPolicyToJson(*policy.scheduling_policy);
  }
  return out;
}

Json SpecToJson(const TfJobSpec& spec) {
  Json out = Json::object();
  if (Json policy = RunPolicyToJson(spec.run_policy); !policy.empty()) {
    out["runPolicy"] = std::move(policy);
  }
  Put(out, "successPolicy", spec.success_policy);
  if (spec.enable_dynamic_worker) out["enableDynamicWorker"] = true;
  if (!spec.startup_order.empty()) {
    out["startupPolicy"] = {{"startupPolicyOrder", spec.startup_order}};
  }
  if (spec.progress) out["progress"] = ProgressSpecToJson(*spec.progress);
  if (Json network = NetworkSpecToJson(spec.network); !network.empty()) {
    out["network"] = std::move(network);
  }
  if (!spec.replicas) return out;
  Json& types = out["tfReplicaSpecs"] = Json::object();
  for (const auto& [type, replica] : *spec.replicas) {
    Json& entry = types[type] = Json::object();
    Put(entry, "replicas", replica.replicas);
    Put(entry, "restartPolicy", replica.restart_policy);
    Put(entry, "backoffLimit", replica.backoff_limit);
    Put(entry, "cleanPodPolicy", replica.clean_pod_policy);
    Put(entry, "inClusterSpec", replica.in_cluster_spec);
    Put(entry, "minReplicas", replica.min_replicas);
    Put(entry, "maxReplicas", replica.max_replicas);
    ClaimsToJson(replica, entry);
    if (!replica.pod_template.is_null()) entry["template"] = replica.pod_template;
  }
  return out;
}

}  // namespace

Json StatusToJson(const TfJobStatus& status) {
  Json out = Json::object();
  for (const Condition& condition : status.conditions) {
    out["conditions"].push_back(
        {{"type", condition.type},
         {"status", condition.status},
         {"reason", condition.reason},
         {"message", condition.message},
         {"lastUpdateTime", base::TimeText(condition.last_update_time)},
         {"lastTransitionTime", base::TimeText(condition.last_transition_time)}});
  }
  int restarts = 0;
  for (const auto& [type, replica] : status.replica_statuses) {
    restarts += replica.restarts;
    Json& entry = out["replicaStatuses"][type] = Json::object();
    PutCount(entry, "active", replica.active);
    PutCount(entry, "succeeded", replica.succeeded);
    PutCount(entry, "failed", replica.failed);
    PutCount(entry, "ready", replica.ready);
    Put(entry, "selector", replica.selector);
    PutCount(entry, "restarts", replica.restarts);
    Put(entry, "succeededIndexes", IndexRanges(replica.succeeded_indexes));
  }
  PutCount(out, "restarts", restarts);  // for `kubectl get`, whose columns cannot add
  Put(out, "startTime", status.start_time);
  Put(out, "completionTime", status.completion_time);
  Put(out, "lastReconcileTime", status.last_reconcile_time);
  PutCount(out, "observedGeneration", status.observed_generation);
  if (!status.charged_pods.empty()) out["chargedPods"] = status.charged_pods;
  for (const PodFailure& failure : status.failures) {
    out["failures"].push_back(FailureToJson(failure));
  }
  if (status.task_tls) out["taskTls"] = true;
  if (status.progress) out["progress"] = ProgressStatusToJson(*status.progress);
  return out;
}

Json ToJson(const TfJob& job) {
  Json out = {{"apiVersion", kApiVersion}, {"kind", kKind}};
  out["metadata"] = MetadataToJson(job.metadata);
  out["spec"] = SpecToJson(job.spec);
  if (Json status = StatusToJson(job.status); !status.empty()) out["status"] = std::move(status);
  return out;
}

}  // namespace tfjob
