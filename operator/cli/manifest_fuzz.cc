// Fuzzes the manifest reader and all that follows it up to the plan: no crash, no hang, bounded
// memory; what is rendered reads back as the same objects. A TFJob that was converted from an old
// version needs no second conversion.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "operator/cli/manifest.h"
#include "operator/cli/old_tfjob.h"
#include "operator/cli/render.h"
#include "operator/cli/to_yaml.h"
#include "operator/cli/validate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  tfjob::ManifestLimits limits;
  limits.max_bytes = 64 << 10;
  limits.max_nodes = 10'000;
  const auto manifests = tfjob::ParseManifests("fuzz.yaml", text, limits);
  if (!manifests.ok()) return 0;
  for (const tfjob::Manifest& manifest : *manifests) {
    const auto again = tfjob::ParseManifests("again.yaml", tfjob::ToYaml(manifest.json));
    if (!again.ok() || again->size() != 1 || again->front().json != manifest.json) std::abort();
    if (tfjob::IsAnyTfJob(manifest.json)) {
      const tfjob::Conversion once = tfjob::ConvertTfJob(manifest.json);
      if (once.errors.empty()) {
        const tfjob::Conversion twice = tfjob::ConvertTfJob(once.job);
        if (!twice.errors.empty() || !twice.notes.empty() || twice.job != once.job) std::abort();
      }
    }
    tfjob::Diagnosis diagnosis = tfjob::Diagnose(manifest);
    if (!diagnosis.errors.empty()) continue;
    for (const auto& [type, replica] : *diagnosis.job.spec.replicas) {
      if (replica.replicas.value_or(1) > 50) return 0;  // only slow, and tested elsewhere
    }
    tfjob::RenderJob(std::move(diagnosis.job), {});
  }
  return 0;
}
