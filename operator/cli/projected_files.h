// Volumes whose files come from the manifest: configMap, secret, downwardAPI and projected. PURE.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "operator/cli/container_env.h"

namespace tfjob {

struct ProjectedFile {
  std::string content;
  int mode = 0644;
};
// Relative path → file.
using ProjectedFiles = std::map<std::string, ProjectedFile>;

// The files of such a volume; nullopt if the volume is of another kind. kInvalidArgument: an object
// or key that the manifest lacks (unless optional), a path that leaves the volume.
absl::StatusOr<std::optional<ProjectedFiles>> FilesOfVolume(const Json& volume,
                                                            const PodContext& context);

}  // namespace tfjob
