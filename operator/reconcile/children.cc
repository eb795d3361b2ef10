#include "operator/reconcile/children.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "operator/api/names.h"
#include "operator/reconcile/cluster.h"
#include "operator/reconcile/gang.h"

namespace tfjob {
namespace {

std::string LabelJobName(const TfJob& job) {
  return absl::StrReplaceAll(job.metadata.name, {{"/", "-"}});
}

// The four labels that select one replica.
Json ReplicaLabels(const TfJob& job, const std::string& type, int index) {
  return {{kLabelOperatorName, kOperatorName},
          {kLabelJobName, LabelJobName(job)},
          {kLabelReplicaType, LowerReplicaType(type)},
          {kLabelReplicaIndex, std::to_string(index)}};
}

// What a child carries beside them; it does not select.
void SetJobUid(Json& labels, const TfJob& job, const PlanOptions& options) {
  if (!options.compat_v19 && !job.metadata.uid.empty()) labels[kLabelJobUid] = job.metadata.uid;
}

// For tools that select by the labels of before v1.6. As there, they replace a user's own ones.
void AddLegacyLabels(Json& labels, const PlanOptions& options) {
  if (!options.legacy_labels) return;
  const auto repeat = [&](const char* label, const auto& names) {
    const auto it = labels.find(label);
    if (it == labels.end()) return;
    const Json value = *it;
    for (const char* name : names) labels[name] = value;
  };
  labels[kLegacyLabelGroupName] = kLegacyGroupName;
  repeat(kLabelJobName, kLegacyLabelsJobName);
  repeat(kLabelReplicaType, kLegacyLabelsReplicaType);
  repeat(kLabelReplicaIndex, kLegacyLabelsReplicaIndex);
  repeat(kLabelJobRole, kLegacyLabelsJobRole);
}

// Chief and Master, or worker 0 when there is neither.
bool IsMasterRole(const TfJob& job, const std::string& type, int index) {
  if (IsChiefLike(type)) return true;
  return type == kWorker && index == 0 && !job.spec.replicas->contains(kChief) &&
         !job.spec.replicas->contains(kMaster);
}

Json Metadata(const TfJob& job, const std::string& type, int index, Json labels,
              const PlanOptions& options) {
  Json meta = {{"name", ReplicaName(job.metadata.name, type, index)},
               {"namespace", NamespaceOf(job, options)},
               {"labels", std::move(labels)}};
  if (Json owners = OwnersOf(job); !owners.empty()) meta["ownerReferences"] = std::move(owners);
  return meta;
}

Json& ObjectAt(Json& object, const char* key) {
  Json& value = object[key];
  if (!value.is_object()) value = Json::object();
  return value;
}

std::set<std::string> EnvNames(const Json& env) {
  std::set<std::string> names;
  for (const Json& entry : env) {
    if (entry.is_object() && entry.contains("name") && entry["name"].is_string()) {
      names.insert(entry["name"].get<std::string>());
    }
  }
  return names;
}

// Ours first, so that the user's own variables and arguments can refer to them as $(PS_HOSTS); a
// variable that the user sets himself is left alone; TF_CONFIG last, as v1.9 has it.
void SetEnvironment(Json& container, const TfJob& job, const base::Task& task,
                    const base::ClusterSpec& cluster, const PlanOptions& options) {
  Json own = Json::array();
  if (const auto it = container.find("env"); it != container.end() && it->is_array()) own = *it;
  const std::set<std::string> taken = EnvNames(own);
  Json env = Json::array();
  if (options.inject_host_env && !options.compat_v19) {
    for (const Json& entry : HostEnv(cluster, task)) {
      if (!taken.contains(entry["name"].get<std::string>())) env.push_back(entry);
    }
  }
  for (Json& entry : own) env.push_back(std::move(entry));
  if (std::string config = TfConfigFor(job, cluster, task, options); !config.empty()) {
    env.push_back({{"name", kTfConfigEnv}, {"value", std::move(config)}});
  }
  if (!env.empty()) container["env"] = std::move(env);
}

// A service needs a name for each of its ports once it has two.
Json ServicePort(const Json& port, bool only_one, bool compat_v19) {
  Json out = {{"port", port["containerPort"]}};
  const std::string name =
      port.contains("name") && port["name"].is_string() ? port["name"].get<std::string>() : "";
  if (!name.empty()) {
    out["name"] = name;
  } else if (!only_one && !compat_v19) {
    out["name"] = absl::StrCat("port-", port["containerPort"].dump());
  }
  if (!compat_v19 && port.contains("protocol") && port["protocol"].is_string() &&
      port["protocol"] != "TCP") {
    out["protocol"] = port["protocol"];
  }
  return out;
}

Json ServicePorts(const ReplicaSpec& replica, bool compat_v19) {
  Json ports = Json::array();
  const std::optional<size_t> index = TensorflowContainer(replica.pod_template);
  if (!index) return ports;
  const Json& container = replica.pod_template["spec"]["containers"][*index];
  const auto given = container.find("ports");
  if (given == container.end() || !given->is_array()) return ports;
  for (const Json& port : *given) {
    if (!port.is_object() || !port.contains("containerPort")) continue;
    ports.push_back(ServicePort(port, given->size() == 1, compat_v19));
  }
  return ports;
}

}  // namespace

Json OwnersOf(const TfJob& job) {
  if (job.metadata.uid.empty()) return Json::array();
  return Json::array({{{"apiVersion", kApiVersion},
                       {"kind", kKind},
                       {"name", job.metadata.name},
                       {"uid", job.metadata.uid},
                       {"controller", true},
                       {"blockOwnerDeletion", true}}});
}

std::string NamespaceOf(const TfJob& job, const PlanOptions& options) {
  const std::string& name_space = job.metadata.namespace_name;
  return name_space.empty() ? options.default_namespace : name_space;
}

Json BuildPod(const TfJob& job, const std::string& type, int index,
              const base::ClusterSpec& cluster, const PlanOptions& options) {
  const ReplicaSpec& replica = job.spec.replicas->at(type);
  Json labels = Json::object();
  Json extra = Json::object();
  if (const auto meta = replica.pod_template.find("metadata");
      meta != replica.pod_template.end() && meta->is_object()) {
    if (meta->contains("labels") && (*meta)["labels"].is_object()) labels = (*meta)["labels"];
    for (const char* key : {"annotations", "finalizers"}) {
      if (meta->contains(key) && !(*meta)[key].is_null()) extra[key] = (*meta)[key];
    }
  }
  labels.update(ReplicaLabels(job, type, index));
  SetJobUid(labels, job, options);
  if (IsMasterRole(job, type, index)) labels[kLabelJobRole] = kJobRoleMaster;
  AddLegacyLabels(labels, options);
  Json pod = {{"apiVersion", "v1"}, {"kind", "Pod"}};
  pod["metadata"] = Metadata(job, type, index, std::move(labels), options);
  pod["metadata"].update(extra);
  Json& spec = pod["spec"] = replica.pod_template.is_object()
                                 ? replica.pod_template.value("spec", Json::object())
                                 : Json::object();
  if (!spec.is_object()) spec = Json::object();
  spec["restartPolicy"] =
      replica.restart_policy == kRestartExitCode ? kRestartNever : replica.restart_policy;
  if (const std::optional<size_t> chosen = TensorflowContainer(replica.pod_template)) {
    SetEnvironment(spec["containers"][*chosen], job, {LowerReplicaType(type), index}, cluster,
                   options);
  }
  JoinGang(pod, job, type, options);
  return pod;
}

Json BuildService(const TfJob& job, const std::string& type, int index,
                  const PlanOptions& options) {
  Json service = {{"apiVersion", "v1"}, {"kind", "Service"}};
  Json labels = ReplicaLabels(job, type, index);
  Json& spec = ObjectAt(service, "spec");
  spec["clusterIP"] = "None";
  spec["selector"] = labels;
  SetJobUid(labels, job, options);
  AddLegacyLabels(labels, options);
  service["metadata"] = Metadata(job, type, index, std::move(labels), options);
  spec["ports"] = ServicePorts(job.spec.replicas->at(type), options.compat_v19);
  // Peers find each other while they are starting, not only once all of them are ready.
  if (!options.compat_v19) spec["publishNotReadyAddresses"] = true;
  return service;
}

std::string SelectorOf(const TfJob& job, const std::string& type) {
  return absl::StrCat(kLabelJobName, "=", LabelJobName(job), ",", kLabelOperatorName, "=",
                      kOperatorName, ",", kLabelReplicaType, "=", LowerReplicaType(type));
}

}  // namespace tfjob
