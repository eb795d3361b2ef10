#include "operator/cli/manifest.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "operator/api/names.h"
#include "operator/cli/yaml_reader.h"

namespace tfjob {

absl::StatusOr<std::string> ReadManifestText(const std::string& path,
                                             const ManifestLimits& limits) {
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": cannot read it: ", strerror(errno)));
    }
  }
  std::istream& stream = path == "-" ? std::cin : file;
  std::string text(limits.max_bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot read it"));
  text.resize(stream.gcount());
  return text;
}

std::string Manifest::kind() const {
  if (!json.is_object()) return "";
  const auto it = json.find("kind");
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
}

int Manifest::LineOf(std::string_view path) const {
  std::string normal = NormalPath(path);
  while (!normal.empty()) {
    if (const auto it = lines.find(normal); it != lines.end()) return it->second;
    const size_t dot = normal.rfind('.');
    normal.resize(dot == std::string::npos ? 0 : dot);
  }
  return line;
}

absl::StatusOr<std::vector<Manifest>> ParseManifests(std::string_view file, std::string_view yaml,
                                                     const ManifestLimits& limits) {
  return ReadYaml(file, yaml, limits);
}

absl::StatusOr<std::vector<Manifest>> ReadManifests(const std::string& path,
                                                    const ManifestLimits& limits) {
  ASSIGN_OR_RETURN(const std::string text, ReadManifestText(path, limits));
  return ReadYaml(path == "-" ? "stdin" : path, text, limits);
}

absl::StatusOr<std::vector<Manifest>> ReadTfJobManifests(const std::string& path,
                                                         const ManifestLimits& limits) {
  ASSIGN_OR_RETURN(std::vector<Manifest> documents, ReadManifests(path, limits));
  std::set<std::string> kinds;
  for (const Manifest& document : documents) {
    kinds.insert(document.kind().empty() ? "a document without kind" : document.kind());
  }
  std::erase_if(documents, [](const Manifest& document) { return document.kind() != kKind; });
  if (!documents.empty()) return documents;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ":1: no TFJob in this file",
                   kinds.empty() ? std::string("; it is empty")
                                 : absl::StrCat("; it holds ", absl::StrJoin(kinds, ", "))));
}

}  // namespace tfjob
