#include "operator/api/pod_fields.h"

#include "absl/strings/str_cat.h"
#include "operator/api/quantity.h"

namespace tfjob {
namespace {

// Field names of the Kubernetes core/v1 API, version 1.33; those that are read below are left out.
const std::vector<std::string>& OtherPodFields() {
  static const auto* const fields = new std::vector<std::string>{"activeDeadlineSeconds",
                                                                 "affinity",
                                                                 "automountServiceAccountToken",
                                                                 "dnsConfig",
                                                                 "dnsPolicy",
                                                                 "enableServiceLinks",
                                                                 "ephemeralContainers",
                                                                 "hostAliases",
                                                                 "hostIPC",
                                                                 "hostNetwork",
                                                                 "hostPID",
                                                                 "hostUsers",
                                                                 "hostname",
                                                                 "hostnameOverride",
                                                                 "imagePullSecrets",
                                                                 "nodeName",
                                                                 "os",
                                                                 "overhead",
                                                                 "preemptionPolicy",
                                                                 "priority",
                                                                 "priorityClassName",
                                                                 "readinessGates",
                                                                 "resourceClaims",
                                                                 "resources",
                                                                 "restartPolicy",
                                                                 "runtimeClassName",
                                                                 "schedulerName",
                                                                 "schedulingGates",
                                                                 "securityContext",
                                                                 "serviceAccount",
                                                                 "serviceAccountName",
                                                                 "setHostnameAsFQDN",
                                                                 "shareProcessNamespace",
                                                                 "subdomain",
                                                                 "terminationGracePeriodSeconds",
                                                                 "tolerations",
                                                                 "topologySpreadConstraints"};
  return *fields;
}

const std::vector<std::string>& OtherContainerFields() {
  static const auto* const fields = new std::vector<std::string>{
      "envFrom",       "lifecycle",          "livenessProbe",   "readinessProbe", "resizePolicy",
      "restartPolicy", "restartPolicyRules", "securityContext", "startupProbe",   "volumeDevices"};
  return *fields;
}

void CheckStrings(ObjectReader& object, const std::string& key) {
  const Json* list = object.Raw(key);
  if (list == nullptr) return;
  if (!list->is_array()) {
    object.Error(key, "Invalid value",
                 absl::StrCat("must be a list of strings, not ", TypeName(*list)));
    return;
  }
  for (size_t i = 0; i < list->size(); ++i) {
    if ((*list)[i].is_string()) continue;
    object.Error(
        absl::StrCat(key, "[", i, "]"), "Invalid value",
        absl::StrCat("must be a string, not ", TypeName((*list)[i]), "; put it in quotes"));
  }
}

void CheckQuantities(ObjectReader& resources, const std::string& key) {
  const Json* quantities = resources.Raw(key);
  if (quantities == nullptr) return;
  if (!quantities->is_object()) {
    resources.Error(key, "Invalid value",
                    absl::StrCat("must be an object, not ", TypeName(*quantities)));
    return;
  }
  for (const auto& [name, value] : quantities->items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (value.is_number() || (value.is_string() && ParseQuantity(text).ok())) continue;
    resources.Error(absl::StrCat(key, "[", name, "]"), "Invalid value",
                    absl::StrCat(value.is_string() ? absl::StrCat("\"", text, "\"") : text,
                                 " is not a quantity like 2, 500m or 1.5Gi"));
  }
}

void CheckEnv(ObjectReader& container) {
  for (ObjectReader& env : container.Objects("env")) {
    if (env.String("name").empty()) env.Error("name", "Required value", "must be specified");
    env.String("value");
    env.Raw("valueFrom");
    env.WarnUnknown();
  }
}

void CheckPorts(ObjectReader& container) {
  for (ObjectReader& port : container.Objects("ports")) {
    port.String("name");
    port.String("protocol");
    port.String("hostIP");
    port.Integer("hostPort", 0, 65535);
    if (port.Raw("containerPort") == nullptr) {
      port.Error("containerPort", "Required value", "must be specified");
    }
    port.Integer("containerPort", 1, 65535);
    port.WarnUnknown();
  }
}

void CheckMounts(ObjectReader& container) {
  for (ObjectReader& mount : container.Objects("volumeMounts")) {
    for (const char* key : {"name", "mountPath"}) {
      if (mount.String(key).empty()) mount.Error(key, "Required value", "must be specified");
    }
    mount.String("subPath");
    mount.Bool("readOnly");
    mount.Know({"mountPropagation", "recursiveReadOnly", "subPathExpr"});
    mount.WarnUnknown();
  }
}

void CheckContainer(ObjectReader& container) {
  for (const char* key : {"name", "image", "workingDir", "imagePullPolicy",
                          "terminationMessagePath", "terminationMessagePolicy"}) {
    container.String(key);
  }
  for (const char* key : {"stdin", "stdinOnce", "tty"}) container.Bool(key);
  CheckStrings(container, "command");
  CheckStrings(container, "args");
  CheckEnv(container);
  CheckPorts(container);
  CheckMounts(container);
  ObjectReader resources = container.Object("resources");
  CheckQuantities(resources, "limits");
  CheckQuantities(resources, "requests");
  resources.Know({"claims"});
  resources.WarnUnknown();
  container.Know(OtherContainerFields());
  container.WarnUnknown();
}

}  // namespace

void CheckPodTemplate(ObjectReader pod_template) {
  ObjectReader metadata = pod_template.Object("metadata");
  metadata.StringMap("labels");
  metadata.StringMap("annotations");
  metadata.Know({"name", "namespace", "finalizers", "creationTimestamp", "generateName"});
  metadata.WarnUnknown();
  ObjectReader spec = pod_template.Object("spec");
  for (const char* key : {"containers", "initContainers"}) {
    for (ObjectReader& container : spec.Objects(key)) CheckContainer(container);
  }
  for (ObjectReader& volume : spec.Objects("volumes")) {
    if (volume.String("name").empty()) volume.Error("name", "Required value", "must be specified");
  }
  spec.StringMap("nodeSelector");
  spec.Know(OtherPodFields());
  spec.WarnUnknown();
  pod_template.WarnUnknown();
}

}  // namespace tfjob
