#include "operator/cli/run_input.h"

#include <set>

#include "absl/strings/str_join.h"
#include "base/json_read.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "operator/api/names.h"
#include "operator/cli/local_pod.h"
#include "operator/cli/validate.h"

namespace tfjob {
namespace {

constexpr char kLocalUid[] = "local-job";

absl::StatusOr<const Manifest*> PickJob(const std::vector<Manifest>& manifests,
                                        const RunOptions& options) {
  std::vector<const Manifest*> jobs;
  std::vector<std::string> names;
  std::set<std::string> kinds;
  for (const Manifest& manifest : manifests) {
    kinds.insert(manifest.kind());
    if (manifest.kind() != kKind) continue;
    const std::string name = base::StringAt(base::At(manifest.json, "metadata"), "name");
    names.push_back(name);
    if (options.job.empty() || name == options.job) jobs.push_back(&manifest);
  }
  if (jobs.size() == 1) return jobs.front();
  if (names.empty()) {
    return absl::InvalidArgumentError(base::StrCat(options.manifest, ": no TFJob in it",
                                                   kinds.empty() ? "" : ", only ",
                                                   absl::StrJoin(kinds, ", ")));
  }
  if (jobs.empty()) {
    return absl::InvalidArgumentError(base::StrCat(options.manifest, ": no TFJob named ",
                                                   options.job,
                                                   "; there are: ", absl::StrJoin(names, ", ")));
  }
  return absl::InvalidArgumentError(base::StrCat(options.manifest, ": ", jobs.size(), " TFJobs (",
                                                 absl::StrJoin(names, ", "),
                                                 "): choose one with --job NAME"));
}

// Sentences on what is not done with what the containers ask for.
std::vector<std::string> Notes(const TfJob& job) {
  bool image = false;
  std::set<std::string> ignored;
  for (const auto& [type, replica] : *job.spec.replicas) {
    const Json& spec = base::At(replica.pod_template, "spec");
    for (const char* list : {"initContainers", "containers"}) {
      for (const Json& container : base::ArrayAt(spec, list)) {
        image = image || !IsTrainerImage(base::StringAt(container, "image"));
        for (const char* field :
             {"livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "securityContext"}) {
          if (!base::At(container, field).is_null()) ignored.insert(field);
        }
      }
    }
  }
  std::vector<std::string> notes;
  if (job.spec.network.min_host_port) {
    notes.push_back(
        "spec.network.hostPorts is not used here: each task listens on a loopback port of its own");
  }
  if (image)
    notes.push_back("images are not used here: commands run with the programs of this machine");
  if (!ignored.empty())
    notes.push_back(base::StrCat("ignored here: ", absl::StrJoin(ignored, ", ")));
  return notes;
}

}  // namespace

absl::StatusOr<RunInput> LoadRunInput(const RunOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<Manifest> manifests, ReadManifests(options.manifest));
  ASSIGN_OR_RETURN(const Manifest* manifest, PickJob(manifests, options));
  RunInput input;
  Diagnosis diagnosis = Diagnose(*manifest);
  if (!diagnosis.errors.empty()) {
    return absl::InvalidArgumentError(absl::StrJoin(diagnosis.errors, "\n"));
  }
  input.job = std::move(diagnosis.job);
  input.notes = std::move(diagnosis.warnings);
  ASSIGN_OR_RETURN(input.config, ReadConfigObjects(manifests));
  SetDefaults(input.job);
  ObjectMeta& metadata = input.job.metadata;
  if (metadata.name.empty()) metadata.name = base::StrCat(metadata.generate_name, "local");
  if (metadata.namespace_name.empty()) metadata.namespace_name = "default";
  metadata.uid = kLocalUid;
  input.job.status = {};
  RunPolicy& policy = input.job.spec.run_policy;
  if (policy.suspend && !options.resume) {
    return absl::InvalidArgumentError(base::StrCat(
        manifest->file, ":", manifest->LineOf("spec.runPolicy.suspend"), ": TFJob ", metadata.name,
        " is suspended (spec.runPolicy.suspend: true): run it with --resume"));
  }
  policy.suspend = false;
  // Whoever queues jobs in a cluster has no say here.
  policy.managed_by.reset();
  for (std::string& note : Notes(input.job)) input.notes.push_back(std::move(note));
  return input;
}

}  // namespace tfjob
