#include "operator/cli/container_env.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "operator/api/quantity.h"
#include "operator/cli/consume.h"
#include "operator/cli/expand.h"

namespace tfjob {
namespace {

// "metadata.labels['app']" with `map` = "metadata.labels" gives "app".
std::optional<std::string> Subscript(std::string_view field_path, std::string_view map) {
  if (!ConsumePrefix(field_path, map) || !ConsumePrefix(field_path, "['") ||
      !ConsumeSuffix(field_path, "']")) {
    return std::nullopt;
  }
  return std::string(field_path);
}

// The value of configMapKeyRef or secretKeyRef; nullopt for an optional one that is not there.
absl::StatusOr<std::optional<std::string>> KeyOf(const Json& reference, std::string_view kind,
                                                 const std::map<std::string, ConfigData>& objects) {
  const std::string name = base::StringAt(reference, "name");
  const std::string key = base::StringAt(reference, "key");
  const auto object = objects.find(name);
  if (object != objects.end()) {
    const auto value = object->second.find(key);
    if (value != object->second.end()) return value->second;
  }
  if (base::BoolAt(reference, "optional")) return std::nullopt;
  if (object != objects.end()) {
    return absl::InvalidArgumentError(
        base::StrCat(kind, " \"", name, "\" has no key \"", key, "\""));
  }
  return absl::InvalidArgumentError(
      base::StrCat(kind, " \"", name,
                   "\" is not in the manifest: a local run only knows "
                   "those of the same file; add it as one more document"));
}

absl::StatusOr<std::optional<std::string>> ValueFrom(const Json& source, const Json& container,
                                                     const PodContext& context) {
  if (const Json& field = base::At(source, "fieldRef"); field.is_object()) {
    return FieldOfPod(base::StringAt(field, "fieldPath"), context);
  }
  if (const Json& resource = base::At(source, "resourceFieldRef"); resource.is_object()) {
    return ResourceOfContainer(resource, container, context);
  }
  if (const Json& key = base::At(source, "configMapKeyRef"); key.is_object()) {
    return KeyOf(key, "ConfigMap", context.config->config_maps);
  }
  if (const Json& key = base::At(source, "secretKeyRef"); key.is_object()) {
    return KeyOf(key, "Secret", context.config->secrets);
  }
  return absl::InvalidArgumentError(
      "valueFrom needs fieldRef, resourceFieldRef, configMapKeyRef or secretKeyRef");
}

absl::Status AddEnvFrom(const Json& source, const PodContext& context, Environment& environment) {
  const bool secret = base::At(source, "secretRef").is_object();
  const Json& reference = base::At(source, secret ? "secretRef" : "configMapRef");
  const auto& objects = secret ? context.config->secrets : context.config->config_maps;
  const std::string name = base::StringAt(reference, "name");
  const auto object = objects.find(name);
  if (object == objects.end()) {
    if (base::BoolAt(reference, "optional")) return absl::OkStatus();
    return absl::InvalidArgumentError(
        base::StrCat("envFrom: ", secret ? "Secret" : "ConfigMap", " \"", name,
                     "\" is not in the manifest: add it as one more document"));
  }
  const std::string prefix = base::StringAt(source, "prefix");
  for (const auto& [key, value] : object->second) {
    const std::string variable = prefix + key;
    if (IsEnvName(variable))
      environment[variable] = value;  // others are skipped, as the kubelet does
  }
  return absl::OkStatus();
}

absl::Status AddVariable(const Json& variable, const Json& container, const PodContext& context,
                         Environment& environment) {
  const std::string name = base::StringAt(variable, "name");
  if (!IsEnvName(name))
    return absl::InvalidArgumentError(base::StrCat("env: \"", name, "\" is no variable name"));
  const Json& source = base::At(variable, "valueFrom");
  if (!source.is_object()) {
    environment[name] =
        Expand(base::Scalar(base::At(variable, "value")), [&](std::string_view reference) {
          const auto found = environment.find(std::string(reference));
          return found == environment.end() ? std::nullopt : std::optional(found->second);
        });
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<std::string>> value = ValueFrom(source, container, context);
  if (!value.ok())
    return absl::InvalidArgumentError(base::StrCat("env ", name, ": ", value.status().message()));
  if (*value) environment[name] = **value;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> FieldOfPod(const std::string& field_path, const PodContext& context) {
  const Json& metadata = base::At(*context.pod, "metadata");
  for (const char* map : {"labels", "annotations"}) {
    const std::string path = base::StrCat("metadata.", map);
    if (auto key = Subscript(field_path, path))
      return base::StringAt(base::At(metadata, map), *key);
    if (field_path != path) continue;
    std::string lines;  // only a downwardAPI volume may ask for the whole map
    for (const auto& [key, value] : base::At(metadata, map).items()) {
      absl::StrAppend(&lines, key, "=", value.dump(-1, ' ', false, Json::error_handler_t::replace),
                      "\n");
    }
    return lines;
  }
  for (const char* field : {"name", "namespace", "uid"}) {
    if (field_path == base::StrCat("metadata.", field)) return base::StringAt(metadata, field);
  }
  if (field_path == "spec.nodeName") return context.node_name;
  if (field_path == "spec.serviceAccountName") {
    const std::string name = base::StringAt(base::At(*context.pod, "spec"), "serviceAccountName");
    return name.empty() ? "default" : name;
  }
  for (const char* address : {"status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs"}) {
    if (field_path == address) return context.pod_ip;
  }
  return absl::InvalidArgumentError(
      base::StrCat("fieldPath \"", field_path, "\" is not supported"));
}

absl::StatusOr<std::string> ResourceOfContainer(const Json& reference, const Json& container,
                                                const PodContext& context) {
  const std::string resource = base::StringAt(reference, "resource");
  const size_t dot = resource.find('.');
  const std::string kind = resource.substr(0, dot);
  const std::string name = dot == std::string::npos ? "" : resource.substr(dot + 1);
  if ((kind != "limits" && kind != "requests") || name.empty()) {
    return absl::InvalidArgumentError(base::StrCat("resource \"", resource, "\" is not supported"));
  }
  const Json& resources = base::At(container, "resources");
  std::optional<double> value;
  for (const std::string& where : {kind, std::string("limits")}) {
    const Json& quantity = base::At(base::At(resources, where), name);
    if (value || quantity.is_null()) continue;
    ASSIGN_OR_RETURN(value, ParseQuantity(base::Scalar(quantity)));
  }
  // Without a limit Kubernetes reports what the node can give; without a request, zero.
  if (!value && kind == "limits" && name == "cpu") value = context.cores;
  if (!value && kind == "limits" && name == "memory")
    value = static_cast<double>(context.memory_bytes);
  const std::string divisor_text = base::Scalar(base::At(reference, "divisor"));
  ASSIGN_OR_RETURN(double divisor, ParseQuantity(divisor_text.empty() ? "1" : divisor_text));
  if (divisor <= 0) divisor = 1;
  const double units = std::ceil(value.value_or(0) / divisor - 1e-9);
  return base::StrCat(static_cast<int64_t>(std::clamp(units, 0.0, 9e18)));
}

absl::StatusOr<Environment> ContainerEnvironment(const Json& container, const PodContext& context) {
  Environment environment;
  const auto add_all = [&]() -> absl::Status {
    for (const Json& source : base::ArrayAt(container, "envFrom"))
      RETURN_IF_ERROR(AddEnvFrom(source, context, environment));
    for (const Json& variable : base::ArrayAt(container, "env")) {
      RETURN_IF_ERROR(AddVariable(variable, container, context, environment));
    }
    return absl::OkStatus();
  };
  if (absl::Status status = add_all(); !status.ok()) {
    return absl::InvalidArgumentError(
        base::StrCat("container \"", base::StringAt(container, "name"), "\": ", status.message()));
  }
  return environment;
}

CommandLine ContainerCommandLine(const Json& container, const Environment& environment) {
  const auto lookup = [&](std::string_view name) {
    const auto found = environment.find(std::string(name));
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  };
  CommandLine line;
  for (const Json& part : base::ArrayAt(container, "command"))
    line.command.push_back(Expand(base::Scalar(part), lookup));
  for (const Json& part : base::ArrayAt(container, "args"))
    line.args.push_back(Expand(base::Scalar(part), lookup));
  return line;
}

}  // namespace tfjob
