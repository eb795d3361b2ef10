#include "operator/cli/config_objects.h"

#include "absl/strings/escaping.h"
#include "base/json_read.h"
#include "base/status_macros.h"
#include "base/str_cat.h"

namespace tfjob {
namespace {

absl::Status Problem(const Manifest& manifest, const std::string& path, std::string_view message) {
  return absl::InvalidArgumentError(
      base::StrCat(manifest.file, ":", manifest.LineOf(path), ": ", path, ": ", message));
}

// Adds the entries of one field; `encoded` says that the values are base64.
absl::Status AddEntries(const Manifest& manifest, const std::string& field, bool encoded,
                        ConfigData& data) {
  const Json& entries = base::At(manifest.json, field);
  if (!entries.is_object()) return absl::OkStatus();
  for (const auto& [key, value] : entries.items()) {
    const std::string path = base::StrCat(field, ".", key);
    if (!value.is_string())
      return Problem(manifest, path, "must be a string: put the value in quotes");
    std::string text = value.get<std::string>();
    if (encoded) {
      std::string decoded;
      if (!absl::Base64Unescape(text, &decoded)) return Problem(manifest, path, "is not base64");
      text = std::move(decoded);
    }
    data[key] = std::move(text);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ConfigObjects> ReadConfigObjects(const std::vector<Manifest>& manifests) {
  ConfigObjects objects;
  for (const Manifest& manifest : manifests) {
    const bool secret = manifest.kind() == "Secret";
    if (!secret && manifest.kind() != "ConfigMap") continue;
    const std::string name = base::StringAt(base::At(manifest.json, "metadata"), "name");
    if (name.empty()) return Problem(manifest, "metadata.name", "is required");
    ConfigData& data = (secret ? objects.secrets : objects.config_maps)[name];
    RETURN_IF_ERROR(AddEntries(manifest, "data", secret, data));
    RETURN_IF_ERROR(AddEntries(manifest, secret ? "stringData" : "binaryData", !secret, data));
  }
  return objects;
}

}  // namespace tfjob
