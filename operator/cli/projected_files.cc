#include "operator/cli/projected_files.h"

#include <filesystem>

#include "base/json_read.h"
#include "base/status_macros.h"
#include "base/str_cat.h"

namespace tfjob {
namespace {

int ModeOf(const Json& value, int otherwise) {
  return value.is_number_integer() ? value.get<int>() & 0777 : otherwise;
}

absl::Status AddFile(const std::string& path, std::string content, int mode,
                     ProjectedFiles& files) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  if (path.empty() || normal.is_absolute() || normal.begin()->string() == "..") {
    return absl::InvalidArgumentError(
        base::StrCat("path \"", path, "\" must stay inside the volume"));
  }
  files[normal.string()] = {std::move(content), mode};
  return absl::OkStatus();
}

// A configMap or secret source: every key as a file, or only those of `items`.
absl::Status AddObject(const Json& source, std::string_view kind, const std::string& name,
                       const std::map<std::string, ConfigData>& objects, int default_mode,
                       ProjectedFiles& files) {
  const bool optional = base::BoolAt(source, "optional");
  const auto object = objects.find(name);
  if (object == objects.end()) {
    if (optional) return absl::OkStatus();
    return absl::InvalidArgumentError(
        base::StrCat(kind, " \"", name,
                     "\" is not in the manifest: a local run only knows "
                     "those of the same file; add it as one more document"));
  }
  const Json& items = base::ArrayAt(source, "items");
  if (items.empty()) {
    for (const auto& [key, value] : object->second)
      RETURN_IF_ERROR(AddFile(key, value, default_mode, files));
  }
  for (const Json& item : items) {
    const std::string key = base::StringAt(item, "key");
    const auto value = object->second.find(key);
    if (value == object->second.end()) {
      if (optional) continue;
      return absl::InvalidArgumentError(
          base::StrCat(kind, " \"", name, "\" has no key \"", key, "\""));
    }
    RETURN_IF_ERROR(AddFile(base::StringAt(item, "path"), value->second,
                            ModeOf(base::At(item, "mode"), default_mode), files));
  }
  return absl::OkStatus();
}

absl::Status AddDownward(const Json& source, const PodContext& context, int default_mode,
                         ProjectedFiles& files) {
  for (const Json& item : base::ArrayAt(source, "items")) {
    std::string content;
    if (const Json& field = base::At(item, "fieldRef"); field.is_object()) {
      ASSIGN_OR_RETURN(content, FieldOfPod(base::StringAt(field, "fieldPath"), context));
    } else {
      const Json& reference = base::At(item, "resourceFieldRef");
      const std::string name = base::StringAt(reference, "containerName");
      Json container;
      for (const Json& candidate : base::ArrayAt(base::At(*context.pod, "spec"), "containers")) {
        if (base::StringAt(candidate, "name") == name) container = candidate;
      }
      ASSIGN_OR_RETURN(content, ResourceOfContainer(reference, container, context));
    }
    RETURN_IF_ERROR(AddFile(base::StringAt(item, "path"), content,
                            ModeOf(base::At(item, "mode"), default_mode), files));
  }
  return absl::OkStatus();
}

// One source, of the volume itself or of a projected one. Secrets name their object "secretName" as
// a volume and "name" inside a projected one.
absl::StatusOr<bool> AddSource(const Json& source, const PodContext& context, int mode,
                               ProjectedFiles& files) {
  if (const Json& map = base::At(source, "configMap"); map.is_object()) {
    RETURN_IF_ERROR(AddObject(map, "ConfigMap", base::StringAt(map, "name"),
                              context.config->config_maps,
                              ModeOf(base::At(map, "defaultMode"), mode), files));
    return true;
  }
  if (const Json& secret = base::At(source, "secret"); secret.is_object()) {
    const std::string name =
        base::StringAt(secret, secret.contains("secretName") ? "secretName" : "name");
    RETURN_IF_ERROR(AddObject(secret, "Secret", name, context.config->secrets,
                              ModeOf(base::At(secret, "defaultMode"), mode), files));
    return true;
  }
  if (const Json& downward = base::At(source, "downwardAPI"); downward.is_object()) {
    RETURN_IF_ERROR(
        AddDownward(downward, context, ModeOf(base::At(downward, "defaultMode"), mode), files));
    return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::optional<ProjectedFiles>> FilesOfVolume(const Json& volume,
                                                            const PodContext& context) {
  ProjectedFiles files;
  const Json& projected = base::At(volume, "projected");
  if (!projected.is_object()) {
    ASSIGN_OR_RETURN(const bool known, AddSource(volume, context, 0644, files));
    if (!known) return std::nullopt;
    return files;
  }
  for (const Json& source : base::ArrayAt(projected, "sources")) {
    ASSIGN_OR_RETURN(
        const bool known,
        AddSource(source, context, ModeOf(base::At(projected, "defaultMode"), 0644), files));
    if (!known) {
      return absl::InvalidArgumentError(
          "a local run has no service accounts: only configMap, secret and downwardAPI can be "
          "projected");
    }
  }
  return files;
}

}  // namespace tfjob
