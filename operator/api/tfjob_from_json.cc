#include "absl/strings/str_cat.h"
#include "operator/api/claims.h"
#include "operator/api/failure_policy.h"
#include "operator/api/indexes.h"
#include "operator/api/names.h"
#include "operator/api/network.h"
#include "operator/api/object_reader.h"
#include "operator/api/pod_fields.h"
#include "operator/api/progress_spec.h"
#include "operator/api/success_policy.h"
#include "operator/api/tfjob.h"

namespace tfjob {
namespace {

ObjectMeta ReadMetadata(ObjectReader meta) {
  ObjectMeta out;
  out.name = meta.String("name");
  out.generate_name = meta.String("generateName");
  out.namespace_name = meta.String("namespace");
  out.uid = meta.String("uid");
  out.resource_version = meta.String("resourceVersion");
  out.generation = meta.Integer("generation").value_or(0);
  out.labels = meta.StringMap("labels");
  out.annotations = meta.StringMap("annotations");
  out.creation_time = meta.Time("creationTimestamp");
  out.deletion_time = meta.Time("deletionTimestamp");
  meta.Know(
      {"managedFields", "ownerReferences", "finalizers", "selfLink", "deletionGracePeriodSeconds"});
  meta.WarnUnknown();
  return out;
}

std::optional<SchedulingPolicy> ReadSchedulingPolicy(ObjectReader policy) {
  if (policy.absent()) return std::nullopt;
  SchedulingPolicy out;
  out.min_available = policy.Int32("minAvailable");
  out.queue = policy.String("queue");
  if (const Json* resources = policy.Raw("minResources");
      resources != nullptr && resources->is_object()) {
    for (const auto& [name, value] : resources->items()) {
      out.min_resources[name] = value.is_string() ? value.get<std::string>() : value.dump();
    }
  } else if (resources != nullptr) {
    policy.Error("minResources", "Invalid value",
                 absl::StrCat("must be an object, not ", TypeName(*resources)));
  }
  out.priority_class = policy.String("priorityClass");
  out.schedule_timeout_seconds = policy.Int32("scheduleTimeoutSeconds");
  policy.WarnUnknown();
  return out;
}

// tf-operator up to 1.0 had these fields directly under spec.
void ReadFlatFields(ObjectReader& spec, const ParseOptions& options, RunPolicy& out) {
  const auto take = [&](const std::string& key, bool missing) {
    if (spec.Raw(key) == nullptr) return false;
    const bool taken = options.flat_run_policy && missing;
    spec.Warn(key, absl::StrCat("belongs in spec.runPolicy.", key,
                                taken     ? "; taken as if it stood there"
                                : missing ? "; here it has no effect"
                                          : ", which is set too and wins"));
    return taken;
  };
  if (take("cleanPodPolicy", out.clean_pod_policy.empty())) {
    out.clean_pod_policy = spec.String("cleanPodPolicy");
  }
  if (take("ttlSecondsAfterFinished", !out.ttl_seconds_after_finished)) {
    out.ttl_seconds_after_finished = spec.Int32("ttlSecondsAfterFinished");
  }
  if (take("activeDeadlineSeconds", !out.active_deadline_seconds)) {
    out.active_deadline_seconds = spec.Integer("activeDeadlineSeconds");
  }
  if (take("backoffLimit", !out.backoff_limit)) out.backoff_limit = spec.Int32("backoffLimit");
}

RunPolicy ReadRunPolicy(ObjectReader policy) {
  RunPolicy out;
  out.clean_pod_policy = policy.String("cleanPodPolicy");
  out.ttl_seconds_after_finished = policy.Int32("ttlSecondsAfterFinished");
  out.active_deadline_seconds = policy.Integer("activeDeadlineSeconds");
  out.backoff_limit = policy.Int32("backoffLimit");
  out.failure_rules = ReadFailurePolicy(policy.Object("failurePolicy"));
  out.success_rules = ReadSuccessPolicy(policy.Object("successPolicy"));
  out.suspend = policy.Bool("suspend");
  out.managed_by = policy.OptionalString("managedBy");
  out.scheduling_policy = ReadSchedulingPolicy(policy.Object("schedulingPolicy"));
  policy.WarnUnknown();
  return out;
}

ReplicaSpec ReadReplica(ObjectReader replica) {
  ReplicaSpec out;
  out.replicas = replica.Int32("replicas");
  out.restart_policy = replica.String("restartPolicy");
  out.backoff_limit = replica.Int32("backoffLimit");
  out.clean_pod_policy = replica.String("cleanPodPolicy");
  if (replica.Raw("inClusterSpec") != nullptr) {
    out.in_cluster_spec = replica.Bool("inClusterSpec");
  }
  out.min_replicas = replica.Int32("minReplicas");
  out.max_replicas = replica.Int32("maxReplicas");
  ReadClaims(replica, out);
  CheckPodTemplate(replica.Object("template"));
  if (const Json* pod_template = replica.Raw("template");
      pod_template != nullptr && pod_template->is_object()) {
    out.pod_template = *pod_template;
  }
  replica.WarnUnknown();
  return out;
}

TfJobSpec ReadSpec(ObjectReader spec, const ParseOptions& options, ParsedTfJob* result) {
  TfJobSpec out;
  out.run_policy = ReadRunPolicy(spec.Object("runPolicy"));
  ReadFlatFields(spec, options, out.run_policy);
  out.success_policy = spec.String("successPolicy");
  out.enable_dynamic_worker = spec.Bool("enableDynamicWorker");
  ObjectReader startup = spec.Object("startupPolicy");
  out.startup_order = startup.String("startupPolicyOrder");
  startup.WarnUnknown();
  out.progress = ReadProgressSpec(spec.Object("progress"));
  out.network = ReadNetworkSpec(spec.Object("network"));
  if (const Json* replicas = spec.Raw("tfReplicaSpecs"); replicas != nullptr) {
    out.replicas.emplace();
    if (!replicas->is_object()) {
      spec.Error("tfReplicaSpecs", "Invalid value",
                 absl::StrCat("must be an object of replica types, not ", TypeName(*replicas)));
    } else {
      for (const auto& [type, replica] : replicas->items()) {
        (*out.replicas)[type] = ReadReplica(ObjectReader(
            &replica, absl::StrCat(spec.PathOf("tfReplicaSpecs"), "[", type, "]"), result));
      }
    }
  }
  if (const std::string why = WhyNoProgressPort(out); !why.empty()) spec.Warn("progress", why);
  spec.WarnUnknown();
  return out;
}

Condition ReadCondition(ObjectReader& condition) {
  Condition out;
  out.type = condition.String("type");
  out.status = condition.String("status");
  out.reason = condition.String("reason");
  out.message = condition.String("message");
  out.last_update_time = condition.Time("lastUpdateTime").value_or(absl::Time());
  out.last_transition_time = condition.Time("lastTransitionTime").value_or(absl::Time());
  return out;
}

ReplicaStatus ReadReplicaStatus(ObjectReader status) {
  ReplicaStatus out;
  out.active = status.Int32("active").value_or(0);
  out.succeeded = status.Int32("succeeded").value_or(0);
  out.failed = status.Int32("failed").value_or(0);
  out.selector = status.String("selector");
  out.ready = status.Int32("ready").value_or(0);
  out.restarts = status.Int32("restarts").value_or(0);
  const std::optional<std::set<int>> indexes = ParseIndexes(status.String("succeededIndexes"));
  if (indexes) {
    out.succeeded_indexes = *indexes;
  } else {
    status.Error("succeededIndexes", "Invalid value", "must be indexes like 0,2-4");
  }
  return out;
}

PodFailure ReadFailure(ObjectReader& failure) {
  return {.pod = failure.String("pod"),
          .uid = failure.String("uid"),
          .exit_code = failure.Int32("exitCode"),
          .reason = failure.String("reason"),
          .message = failure.String("message"),
          .time = failure.Time("time")};
}

TfJobStatus ReadStatus(ObjectReader status, ParsedTfJob* result) {
  TfJobStatus out;
  for (ObjectReader& condition : status.Objects("conditions")) {
    out.conditions.push_back(ReadCondition(condition));
  }
  if (const Json* types = status.Raw("replicaStatuses"); types != nullptr && types->is_object()) {
    for (const auto& [type, value] : types->items()) {
      out.replica_statuses[type] = ReadReplicaStatus(
          ObjectReader(&value, absl::StrCat("status.replicaStatuses[", type, "]"), result));
    }
  }
  out.start_time = status.Time("startTime");
  out.completion_time = status.Time("completionTime");
  out.last_reconcile_time = status.Time("lastReconcileTime");
  out.observed_generation = status.Integer("observedGeneration").value_or(0);
  if (const Json* progress = status.Raw("progress"); progress != nullptr) {
    out.progress = ProgressStatusFromJson(*progress);
  }
  for (ObjectReader& failure : status.Objects("failures")) {
    out.failures.push_back(ReadFailure(failure));
  }
  if (const Json* tls = status.Raw("taskTls"); tls != nullptr) out.task_tls = *tls == true;
  if (const Json* uids = status.Raw("chargedPods"); uids != nullptr && uids->is_array()) {
    for (const Json& uid : *uids) {
      if (uid.is_string()) out.charged_pods.push_back(uid.get<std::string>());
    }
  }
  return out;
}

}  // namespace

ParsedTfJob FromJson(const Json& json, const ParseOptions& options) {
  ParsedTfJob result;
  ObjectReader root(&json, "", &result);
  if (json.is_null()) result.errors.push_back({"", "is empty", "Required value"});
  if (root.absent()) return result;
  if (const std::string version = root.String("apiVersion"); version != kApiVersion) {
    root.Error("apiVersion", "Unsupported value",
               absl::StrCat("\"", version, "\": must be ", kApiVersion));
  }
  if (const std::string kind = root.String("kind"); kind != kKind) {
    root.Error("kind", "Unsupported value", absl::StrCat("\"", kind, "\": must be ", kKind));
  }
  result.job.metadata = ReadMetadata(root.Object("metadata"));
  result.job.spec = ReadSpec(root.Object("spec"), options, &result);
  result.job.status = ReadStatus(root.Object("status"), &result);
  root.WarnUnknown();
  return result;
}

}  // namespace tfjob
