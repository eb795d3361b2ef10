#include <algorithm>

#include "operator/api/names.h"
#include "operator/api/tfjob.h"

namespace tfjob {
namespace {

// The list under `key`, nullptr when the object has none.
const Json* List(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || !it->is_array() ? nullptr : &*it;
}

const Json* Containers(const Json& pod_template) {
  if (!pod_template.is_object()) return nullptr;
  const auto spec = pod_template.find("spec");
  return spec == pod_template.end() ? nullptr : List(*spec, "containers");
}

bool HasText(const Json& object, const char* key, const char* text) {
  if (!object.is_object()) return false;
  const auto it = object.find(key);
  return it != object.end() && it->is_string() && it->get_ref<const std::string&>() == text;
}

// The container port called tfjob-port, nullptr when there is none.
const Json* FindPort(const Json& container) {
  const Json* ports = List(container, "ports");
  if (ports == nullptr) return nullptr;
  for (const Json& port : *ports) {
    if (HasText(port, "name", kPortName)) return &port;
  }
  return nullptr;
}

void AddDefaultPort(Json& pod_template) {
  const Json* containers = Containers(pod_template);
  if (containers == nullptr || containers->empty()) return;
  const size_t chosen = TensorflowContainer(pod_template).value_or(0);
  Json& container = pod_template["spec"]["containers"][chosen];
  if (!container.is_object() || FindPort(container) != nullptr) return;
  Json& ports = container["ports"];
  if (!ports.is_array()) ports = Json::array();
  ports.push_back({{"name", kPortName}, {"containerPort", kDefaultPort}});
}

void SetCanonical(std::set<std::string>& types) {
  std::set<std::string> canonical;
  for (const std::string& type : types) canonical.insert(CanonicalReplicaType(type));
  types = std::move(canonical);
}

}  // namespace

std::optional<size_t> TensorflowContainer(const Json& pod_template) {
  const Json* containers = Containers(pod_template);
  if (containers == nullptr) return std::nullopt;
  for (size_t i = 0; i < containers->size(); ++i) {
    if (HasText((*containers)[i], "name", kContainerName)) return i;
  }
  return std::nullopt;
}

void SetDefaults(TfJob& job, const DefaultOptions& options) {
  TfJobSpec& spec = job.spec;
  const bool says_nothing = spec.run_policy.clean_pod_policy.empty();
  if (says_nothing) spec.run_policy.clean_pod_policy = options.clean_pod_policy;
  const bool reclaims_ps =
      says_nothing && options.reclaims_ps && options.clean_pod_policy == kCleanNone;
  for (FailureRule& rule : spec.run_policy.failure_rules) SetCanonical(rule.types);
  for (SuccessRule& rule : spec.run_policy.success_rules) SetCanonical(rule.types);
  if (!spec.replicas) return;
  std::map<std::string, ReplicaSpec> canonical;
  for (auto& [key, replica] : *spec.replicas) {
    const std::string type = CanonicalReplicaType(key);
    if (type != key && spec.replicas->contains(type)) continue;
    if (!replica.replicas) replica.replicas = 1;
    if (replica.restart_policy.empty()) replica.restart_policy = kRestartNever;
    if (type == kPs && reclaims_ps && replica.clean_pod_policy.empty()) {
      replica.clean_pod_policy = kCleanRunning;
    }
    AddDefaultPort(replica.pod_template);
    canonical.emplace(type, std::move(replica));
  }
  spec.replicas = std::move(canonical);
}

int ReplicaCount(const TfJobSpec& spec, const std::string& type) {
  if (!spec.replicas) return 0;
  const auto it = spec.replicas->find(type);
  return it == spec.replicas->end() ? 0 : it->second.replicas.value_or(1);
}

int RequiredReplicas(const ReplicaSpec& replica) {
  const int32_t all = replica.replicas.value_or(1);
  return std::min(all, replica.min_replicas.value_or(all));
}

const std::string& CleanPolicyOf(const TfJobSpec& spec, const std::string& type) {
  const std::string& of_job = spec.run_policy.clean_pod_policy;
  if (!spec.replicas) return of_job;
  const auto replica = spec.replicas->find(type);
  if (replica == spec.replicas->end() || replica->second.clean_pod_policy.empty()) return of_job;
  return replica->second.clean_pod_policy;
}

int PortOf(const ReplicaSpec& replica) {
  const std::optional<size_t> container = TensorflowContainer(replica.pod_template);
  if (!container) return kDefaultPort;
  const Json* port = FindPort((*Containers(replica.pod_template))[*container]);
  if (port == nullptr) return kDefaultPort;
  const auto number = port->find("containerPort");
  return number != port->end() && number->is_number_integer() ? number->get<int>() : kDefaultPort;
}

}  // namespace tfjob
