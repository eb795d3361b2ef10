#include "operator/cli/render.h"

#include <utility>

#include "base/exit_codes.h"
#include "operator/cli/to_yaml.h"
#include "operator/cli/validate.h"

namespace tfjob {
namespace {

constexpr char kGeneratedSuffix[] = "xxxxx";  // what the API server will replace by random letters

}  // namespace

std::vector<Json> RenderJob(TfJob job, const PlanOptions& options) {
  if (job.metadata.name.empty()) job.metadata.name = job.metadata.generate_name + kGeneratedSuffix;
  job.metadata.deletion_time.reset();
  job.status = {};
  job.spec.run_policy.suspend = false;
  job.spec.run_policy.managed_by.reset();
  Observed observed{.job = std::move(job), .now = absl::UnixEpoch()};
  std::vector<Json> objects;
  for (Action& action : MakePlan(observed, options).actions) {
    if (auto* secret = std::get_if<CreateSecret>(&action)) {
      objects.push_back(std::move(secret->object));  // its data is made anew for each job
    } else if (auto* claim = std::get_if<CreateClaim>(&action)) {
      objects.push_back(std::move(claim->object));
    } else if (auto* service = std::get_if<CreateService>(&action)) {
      objects.push_back(std::move(service->object));
    } else if (auto* pod = std::get_if<CreatePod>(&action)) {
      objects.push_back(std::move(pod->object));
    }
  }
  return objects;
}

int RenderFile(const RenderOptions& options, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<std::vector<Manifest>> manifests = ReadTfJobManifests(options.manifest);
  if (!manifests.ok()) {
    err << std::string(manifests.status().message()) << "\n";
    return base::kExitUsage;
  }
  std::vector<Json> objects;
  bool valid = true;
  for (const Manifest& manifest : *manifests) {
    Diagnosis diagnosis = Diagnose(manifest);
    for (const std::string& line : diagnosis.errors) err << line << "\n";
    for (const std::string& line : diagnosis.warnings) err << line << "\n";
    valid = valid && diagnosis.errors.empty();
    if (!diagnosis.errors.empty()) continue;
    for (Json& object : RenderJob(std::move(diagnosis.job), options.plan)) {
      objects.push_back(std::move(object));
    }
  }
  if (!valid) return base::kExitUsage;
  for (size_t i = 0; i < objects.size(); ++i) out << (i == 0 ? "" : "---\n") << ToYaml(objects[i]);
  return base::kExitOk;
}

}  // namespace tfjob
