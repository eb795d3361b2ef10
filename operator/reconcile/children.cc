#include "operator/reconcile/children.h"

#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/json_read.h"
#include "operator/api/claims.h"
#include "operator/api/names.h"
#include "operator/api/network.h"
#include "operator/reconcile/cluster.h"
#include "operator/reconcile/gang.h"

namespace tfjob {
namespace {

std::string LabelJobName(const TfJob& job) {
  return absl::StrReplaceAll(job.metadata.name, {{"/", "-"}});
}

// The labels that select all pods of the job.
Json JobLabels(const TfJob& job) {
  return {{kLabelOperatorName, kOperatorName}, {kLabelJobName, LabelJobName(job)}};
}

// The four labels that select one replica.
Json ReplicaLabels(const TfJob& job, const std::string& type, int index) {
  Json labels = JobLabels(job);
  labels[kLabelReplicaType] = LowerReplicaType(type);
  labels[kLabelReplicaIndex] = std::to_string(index);
  return labels;
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

Json Metadata(const TfJob& job, std::string name, Json labels, const PlanOptions& options) {
  Json meta = {{"name", std::move(name)},
               {"namespace", NamespaceOf(job, options)},
               {"labels", std::move(labels)}};
  if (Json owners = OwnersOf(job); !owners.empty()) meta["ownerReferences"] = std::move(owners);
  return meta;
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

// The port that the cluster spec names for this replica, where it is not the template's.
void SetHostPort(Json& container, const TfJob& job, const std::string& type, int index) {
  const std::optional<int> number = HostPortOf(job, type, index);
  if (!number) return;
  for (Json& port : container["ports"]) {
    if (base::StringAt(port, "name") != kPortName) continue;
    port["containerPort"] = *number;
    port["hostPort"] = *number;
  }
}

// Peers find the pod as <pod>.<subdomain>.
void SetSubdomain(Json& pod, const TfJob& job) {
  if (job.spec.network.subdomain.empty()) return;
  pod["spec"]["hostname"] = pod["metadata"]["name"];
  pod["spec"]["subdomain"] = job.spec.network.subdomain;
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

Json& ObjectAt(Json& object, const char* key) {
  Json& value = object[key];
  if (!value.is_object()) value = Json::object();
  return value;
}

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
  const std::string name = ReplicaName(job.metadata.name, type, index);
  pod["metadata"] = Metadata(job, name, std::move(labels), options);
  pod["metadata"].update(extra);
  Json& spec = pod["spec"] = replica.pod_template.is_object()
                                 ? replica.pod_template.value("spec", Json::object())
                                 : Json::object();
  if (!spec.is_object()) spec = Json::object();
  spec["restartPolicy"] =
      replica.restart_policy == kRestartExitCode ? kRestartNever : replica.restart_policy;
  if (const std::optional<size_t> chosen = TensorflowContainer(replica.pod_template)) {
    Json& container = spec["containers"][*chosen];
    SetEnvironment(container, job, {LowerReplicaType(type), index}, cluster, options);
    SetHostPort(container, job, type, index);
  }
  SetSubdomain(pod, job);
  AddClaims(pod, name, replica);
  JoinGang(pod, job, type, options);
  return pod;
}

namespace {

// Of what `labels` select.
Json HeadlessService(const TfJob& job, std::string name, Json labels, Json ports,
                     const PlanOptions& options) {
  Json service = {{"apiVersion", "v1"}, {"kind", "Service"}};
  Json& spec = ObjectAt(service, "spec");
  spec["clusterIP"] = "None";
  spec["selector"] = labels;
  SetJobUid(labels, job, options);
  AddLegacyLabels(labels, options);
  service["metadata"] = Metadata(job, std::move(name), std::move(labels), options);
  spec["ports"] = std::move(ports);
  // Peers find each other while they are starting, not only once all of them are ready.
  if (!options.compat_v19) spec["publishNotReadyAddresses"] = true;
  return service;
}

}  // namespace

Json BuildService(const TfJob& job, const std::string& type, int index,
                  const PlanOptions& options) {
  Json ports = ServicePorts(job.spec.replicas->at(type), options.compat_v19);
  for (Json& port : ports) {
    if (base::StringAt(port, "name") == kPortName) port["port"] = TaskPortOf(job, type, index);
  }
  return HeadlessService(job, ReplicaName(job.metadata.name, type, index),
                         ReplicaLabels(job, type, index), std::move(ports), options);
}

Json BuildSubdomainService(const TfJob& job, const PlanOptions& options) {
  Json ports = Json::array();
  std::set<std::string> names;
  std::set<std::pair<std::string, std::string>> seen;  // protocol and number
  for (const auto& [type, replica] : *job.spec.replicas) {
    for (Json& port : ServicePorts(replica, options.compat_v19)) {
      const std::string name = base::StringAt(port, "name");
      if (name == kPortName && HostPortOf(job, type, 0)) continue;  // each replica has another one
      const std::string protocol = port.value("protocol", "TCP");
      const std::string number = port["port"].dump();
      if (!seen.insert({protocol, number}).second) continue;
      if (!names.insert(name).second) {
        port["name"] = absl::AsciiStrToLower(absl::StrCat("port-", number, "-", protocol));
      }
      ports.push_back(std::move(port));
    }
  }
  return HeadlessService(job, job.spec.network.subdomain, JobLabels(job), std::move(ports),
                         options);
}

std::vector<Json> BuildClaims(const TfJob& job, const std::string& type, int index,
                              const PlanOptions& options) {
  const ReplicaSpec& replica = job.spec.replicas->at(type);
  std::vector<Json> claims;
  for (const Json& claim_template : replica.claim_templates) {
    const Json& given = base::At(claim_template, "metadata");
    Json labels = base::At(given, "labels");
    if (!labels.is_object()) labels = Json::object();
    labels.update(ReplicaLabels(job, type, index));
    SetJobUid(labels, job, options);
    AddLegacyLabels(labels, options);
    Json meta = Metadata(
        job, ClaimName(base::StringAt(given, "name"), ReplicaName(job.metadata.name, type, index)),
        std::move(labels), options);
    if (replica.claims_when_deleted != kDelete) meta.erase("ownerReferences");
    if (const Json& notes = base::At(given, "annotations"); notes.is_object()) {
      meta["annotations"] = notes;
    }
    claims.push_back({{"apiVersion", "v1"},
                      {"kind", "PersistentVolumeClaim"},
                      {"metadata", std::move(meta)},
                      {"spec", base::At(claim_template, "spec")}});
  }
  return claims;
}

std::string SelectorOf(const TfJob& job, const std::string& type) {
  return absl::StrCat(kLabelJobName, "=", LabelJobName(job), ",", kLabelOperatorName, "=",
                      kOperatorName, ",", kLabelReplicaType, "=", LowerReplicaType(type));
}

}  // namespace tfjob
