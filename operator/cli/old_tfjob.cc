#include "operator/cli/old_tfjob.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/api/object_reader.h"
#include "operator/cli/old_tfjob_parts.h"

namespace tfjob {
namespace {

// Under spec in v1alpha2 to v1beta2 and in tf-operator's v1 up to 1.0; v1 has them in runPolicy.
constexpr const char* kFlatFields[] = {"cleanPodPolicy", "ttlSecondsAfterFinished",
                                       "activeDeadlineSeconds", "backoffLimit"};
// As v1alpha2 spelled it at first.
constexpr char kOldTtl[] = "ttlSecondsAfterFinishing";
// The device that Kubernetes had before device plugins.
constexpr char kOldGpu[] = "alpha.kubernetes.io/nvidia-gpu";
constexpr char kGpu[] = "nvidia.com/gpu";
constexpr char kLastApplied[] = "kubectl.kubernetes.io/last-applied-configuration";

constexpr const char* kKnownVersions[] = {"tensorflow.org/v1alpha1", "kubeflow.org/v1alpha1",
                                          "kubeflow.org/v1alpha2",   "kubeflow.org/v1beta1",
                                          "kubeflow.org/v1beta2",    kApiVersion};

bool IsKnownVersion(const std::string& version) {
  for (const char* known : kKnownVersions) {
    if (version == known) return true;
  }
  return false;
}

bool HasFlatFields(const Json& job) {
  const Json& spec = base::At(job, "spec");
  for (const char* key : kFlatFields) {
    if (!base::At(spec, key).is_null()) return true;
  }
  return !base::At(spec, kOldTtl).is_null();
}

// What only the API server writes, as `kubectl get -o yaml` shows it.
void DropServerFields(Conversion& conversion) {
  Json& job = conversion.job;
  if (!TakeField(job, "status").is_null()) {
    conversion.notes.push_back({"status", "dropped: the operator writes it anew"});
  }
  if (!base::At(job, "metadata").is_object()) return;
  Json& metadata = job["metadata"];
  for (const char* key : {"creationTimestamp", "generation", "managedFields", "resourceVersion",
                          "selfLink", "uid", "clusterName", "initializers"}) {
    if (TakeField(metadata, key).is_null()) continue;
    conversion.notes.push_back(
        {absl::StrCat("metadata.", key), "dropped: the API server writes it anew"});
  }
  if (!base::At(metadata, "annotations").is_object()) return;
  if (TakeField(metadata["annotations"], kLastApplied).is_null()) return;
  conversion.notes.push_back({absl::StrCat("metadata.annotations[", kLastApplied, "]"),
                              "dropped: kubectl apply writes it anew"});
  if (metadata["annotations"].empty()) metadata.erase("annotations");
}

void MoveFlatFields(Conversion& conversion) {
  Json& spec = conversion.job["spec"];
  for (const char* key :
       {kFlatFields[0], kFlatFields[1], kOldTtl, kFlatFields[2], kFlatFields[3]}) {
    Json value = TakeField(spec, key);
    if (value.is_null()) continue;
    const std::string target = key == kOldTtl ? kFlatFields[1] : key;
    Json& policy = ObjectIn(spec, "runPolicy");
    const bool taken = base::At(policy, target).is_null();
    if (taken) policy[target] = std::move(value);
    conversion.notes.push_back({absl::StrCat("spec.", key),
                                absl::StrCat(taken ? "moved to spec.runPolicy."
                                                   : "dropped: this is set, too: spec.runPolicy.",
                                             target)});
  }
}

// Ps, MASTER … as v1 spells them.
void SpellTypes(Conversion& conversion) {
  const Json& given = base::At(conversion.job, "spec", "tfReplicaSpecs");
  if (!given.is_object()) return;
  Json specs = Json::object();
  std::map<std::string, std::string> taken;  // canonical → as given
  bool changed = false;
  for (const auto& [key, spec] : given.items()) {
    const std::string type = CanonicalReplicaType(key);
    const std::string path = absl::StrCat("spec.tfReplicaSpecs[", key, "]");
    if (const auto [it, is_new] = taken.emplace(type, key); !is_new) {
      conversion.errors.push_back(
          {path, absl::StrCat("is the same type as ", it->second, "; leave one of the two")});
      continue;
    }
    specs[type] = spec;
    if (type == key) continue;
    changed = true;
    conversion.notes.push_back({path, absl::StrCat("spelled ", type)});
  }
  if (changed) conversion.job["spec"]["tfReplicaSpecs"] = std::move(specs);
}

// In v1alpha1 a template's restartPolicy counted; that has been moved by now.
void DropTemplateRestartPolicy(Conversion& conversion, const std::string& path, Json& replica) {
  if (!base::At(replica, "template", "spec").is_object()) return;
  if (TakeField(replica["template"]["spec"], "restartPolicy").is_null()) return;
  const std::string policy = base::StringAt(replica, "restartPolicy");
  conversion.notes.push_back(
      {absl::StrCat(path, ".template.spec.restartPolicy"),
       absl::StrCat("dropped: it never had an effect; restartPolicy ",
                    policy.empty() ? absl::StrCat("(", kRestartNever, ")") : policy,
                    " of the replica has")});
}

void RenameGpus(Conversion& conversion, const std::string& path, Json& container) {
  for (const char* list : {"limits", "requests"}) {
    if (!base::At(container, "resources", list).is_object()) continue;
    Json& amounts = container["resources"][list];
    Json amount = TakeField(amounts, kOldGpu);
    if (amount.is_null()) continue;
    if (!amounts.contains(kGpu)) amounts[kGpu] = std::move(amount);
    conversion.notes.push_back(
        {absl::StrCat(path, ".resources.", list, "[", kOldGpu, "]"),
         absl::StrCat("becomes ", kGpu,
                      "; remove volumes and variables that brought the driver, the device plugin "
                      "does it")});
  }
}

void RenameGpusIn(Conversion& conversion, const std::string& path, Json& replica) {
  for (const char* list : {"initContainers", "containers"}) {
    if (!base::At(base::At(replica, "template", "spec"), list).is_array()) continue;
    Json& containers = replica["template"]["spec"][list];
    for (size_t i = 0; i < containers.size(); ++i) {
      RenameGpus(conversion, absl::StrCat(path, ".template.spec.", list, "[", i, "]"),
                 containers[i]);
    }
  }
}

// Until tf-operator 1.1 TF_CONFIG's cluster did not list evaluators.
void LeaveOutEvaluators(Conversion& conversion) {
  if (!base::At(conversion.job, "spec", "tfReplicaSpecs").is_object()) return;
  Json& specs = conversion.job["spec"]["tfReplicaSpecs"];
  if (!base::At(specs, kEvaluator).is_object()) return;
  if (!base::At(specs[kEvaluator], "inClusterSpec").is_null()) return;
  specs[kEvaluator]["inClusterSpec"] = false;
  conversion.notes.push_back({absl::StrCat("spec.tfReplicaSpecs[", kEvaluator, "]"),
                              "inClusterSpec: false added: TF_CONFIG's cluster listed no "
                              "evaluators; in v1 it does"});
}

void NoteExitCodes(Conversion& conversion) {
  const Json& specs = base::At(conversion.job, "spec", "tfReplicaSpecs");
  if (!specs.is_object()) return;
  const bool used = std::any_of(specs.begin(), specs.end(), [](const Json& replica) {
    return base::StringAt(replica, "restartPolicy") == kRestartExitCode;
  });
  if (!used) return;
  conversion.notes.push_back(
      {"spec",
       "restartPolicy ExitCode restarts after every exit code from 128 on; the operator's flag "
       "--retryable-exit-codes=v1.4 restricts it to 130, 137, 138 and 143, as then"});
}

// What is the same in the list and in the map. `types`: spec.tfReplicaSpecs or spec.replicaSpecs.
void ConvertReplicas(Conversion& conversion, const char* types, bool list_form) {
  Json& spec = conversion.job["spec"];
  if (!base::At(spec, types).is_structured()) return;
  for (auto& [key, replica] : spec[types].items()) {
    const std::string path = absl::StrCat("spec.", types, "[", key, "]");
    if (!list_form) DropTemplateRestartPolicy(conversion, path, replica);
    RenameGpusIn(conversion, path, replica);
  }
}

void ConvertSpec(Conversion& conversion, bool list_form) {
  ConvertReplicas(conversion, list_form ? "replicaSpecs" : "tfReplicaSpecs", list_form);
  if (list_form) ConvertV1alpha1(conversion);
  if (!conversion.errors.empty()) return;
  MoveFlatFields(conversion);
  if (!list_form) {
    MoveSchedulerName(conversion, /*overwrite=*/false);
    SpellTypes(conversion);
    WriteOutCleanPodPolicy(conversion, kCleanRunning);
  }
  LeaveOutEvaluators(conversion);
  NoteExitCodes(conversion);
}

}  // namespace

Json TakeField(Json& object, const std::string& key) {
  const auto it = object.find(key);
  if (it == object.end()) return nullptr;
  Json value = std::move(*it);
  object.erase(it);
  return value;
}

Json& ObjectIn(Json& object, const std::string& key) {
  Json& value = object[key];
  if (!value.is_object()) value = Json::object();
  return value;
}

void MoveSchedulerName(Conversion& conversion, bool overwrite) {
  Json& spec = conversion.job["spec"];
  const Json name = TakeField(spec, "schedulerName");
  if (name.is_null()) return;
  conversion.notes.push_back({"spec.schedulerName", "moved into the templates"});
  if (!base::At(spec, "tfReplicaSpecs").is_object()) return;
  for (auto& [type, replica] : spec["tfReplicaSpecs"].items()) {
    if (!base::At(replica, "template", "spec").is_object()) continue;
    Json& pod = replica["template"]["spec"];
    if (overwrite || base::At(pod, "schedulerName").is_null()) pod["schedulerName"] = name;
  }
}

void WriteOutCleanPodPolicy(Conversion& conversion, const char* policy) {
  Json& run_policy = ObjectIn(conversion.job["spec"], "runPolicy");
  if (!base::At(run_policy, "cleanPodPolicy").is_null()) return;
  run_policy["cleanPodPolicy"] = policy;
  conversion.notes.push_back(
      {"spec", absl::StrCat("runPolicy.cleanPodPolicy: ", policy,
                            " added: it was the default; that of v1 is ", kCleanNone)});
}

bool IsOldVersion(const std::string& api_version) {
  return api_version != kApiVersion && IsKnownVersion(api_version);
}

bool IsAnyTfJob(const Json& object) {
  const std::string kind = base::StringAt(object, "kind");
  return kind == kKind || kind == "TfJob";
}

Conversion ConvertTfJob(const Json& job) {
  Conversion out{.job = job};
  const std::string version = base::StringAt(job, "apiVersion");
  if (!IsKnownVersion(version)) {
    out.errors.push_back(
        {"apiVersion", absl::StrCat("\"", version, "\" is no version of TFJob that is known; ",
                                    "there are ", absl::StrJoin(kKnownVersions, ", "))});
    return out;
  }
  const Json& spec = base::At(job, "spec");
  if (!spec.is_object()) {
    out.errors.push_back({"spec", absl::StrCat("must be an object, not ", TypeName(spec))});
    return out;
  }
  if (version == kApiVersion && !HasFlatFields(job)) {
    SpellTypes(out);
    return out;
  }
  if (version != kApiVersion) {
    out.notes.push_back({"apiVersion", absl::StrCat(version, " becomes ", kApiVersion)});
  }
  out.job["apiVersion"] = kApiVersion;
  out.job["kind"] = kKind;
  DropServerFields(out);
  ConvertSpec(out, version.ends_with("/v1alpha1"));
  return out;
}

}  // namespace tfjob
