#include "operator/cli/validate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/api/task_tls.h"
#include "operator/cli/old_tfjob.h"
#include "operator/cli/yaml_reader.h"

namespace tfjob {
namespace {

// True if `path` is `ancestor` or lies below it.
bool IsWithin(const std::string& path, const std::string& ancestor) {
  return path.starts_with(ancestor) &&
         (path.size() == ancestor.size() || path[ancestor.size()] == '.');
}

// A field of a wrong type reads as absent; that it is missing need not be said again.
bool IsExplained(const FieldError& error, const std::vector<FieldError>& by) {
  return std::any_of(by.begin(), by.end(), [&](const FieldError& other) {
    return IsWithin(NormalPath(error.path), NormalPath(other.path));
  });
}

std::vector<std::string> Lines(const Manifest& manifest, const std::vector<FieldError>& problems,
                               const std::string& label) {
  std::vector<std::pair<int, std::string>> lines;
  for (const FieldError& problem : problems) {
    const int line = manifest.LineOf(problem.path);
    lines.emplace_back(line, absl::StrCat(manifest.file, ":", line, ": ", label, problem.path,
                                          problem.path.empty() ? "" : ": ", problem.message));
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> out;
  for (auto& [line, text] : lines) out.push_back(std::move(text));
  return out;
}

// "job mnist: 2 Worker, 1 PS".
std::string Summary(const Manifest& manifest, const TfJob& job) {
  std::string replicas;
  for (const auto& [type, replica] : *job.spec.replicas) {
    absl::StrAppend(&replicas, replicas.empty() ? "" : ", ", replica.replicas.value_or(1), " ",
                    CanonicalReplicaType(type));
  }
  return absl::StrCat(
      manifest.file, ": TFJob ",
      job.metadata.name.empty() ? job.metadata.generate_name + "…" : job.metadata.name,
      " is valid: ", replicas);
}

bool ValidateFile(const std::string& path, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<std::vector<Manifest>> manifests = ReadTfJobManifests(path);
  if (!manifests.ok()) {
    err << std::string(manifests.status().message()) << "\n";
    return false;
  }
  bool valid = true;
  for (const Manifest& manifest : *manifests) {
    const Diagnosis diagnosis = Diagnose(manifest);
    for (const std::string& line : diagnosis.errors) err << line << "\n";
    for (const std::string& line : diagnosis.warnings) err << line << "\n";
    if (diagnosis.errors.empty()) {
      out << Summary(manifest, diagnosis.job) << "\n";
    } else {
      valid = false;
    }
  }
  return valid;
}

}  // namespace

Diagnosis Diagnose(const Manifest& manifest) {
  ParsedTfJob parsed = FromJson(manifest.json);
  std::vector<FieldError> errors = parsed.errors;
  for (FieldError& error : Validate(parsed.job)) {
    if (!IsExplained(error, parsed.errors)) errors.push_back(std::move(error));
  }
  for (FieldError& error : errors) {
    if (error.path != "apiVersion") continue;
    if (!IsOldVersion(base::StringAt(manifest.json, "apiVersion"))) continue;
    error.message += "; `trainyard convert` rewrites it";
  }
  for (FieldError& error : CheckTaskTls(parsed.job)) errors.push_back(std::move(error));
  std::vector<FieldError> warnings = parsed.warnings;
  for (FieldError& warning : Lint(parsed.job)) warnings.push_back(std::move(warning));
  return {.job = std::move(parsed.job),
          .errors = Lines(manifest, errors, ""),
          .warnings = Lines(manifest, warnings, "warning: ")};
}

int ValidateFiles(const std::vector<std::string>& paths, std::ostream& out, std::ostream& err) {
  bool valid = true;
  for (const std::string& path : paths) valid = ValidateFile(path, out, err) && valid;
  return valid ? base::kExitOk : base::kExitUsage;
}

}  // namespace tfjob
