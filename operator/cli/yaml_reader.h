// YAML text to JSON documents with the line of each field. The only user of the YAML library here.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/cli/manifest.h"

namespace tfjob {

// The documents of `yaml`, empty ones left out. kInvalidArgument "FILE:LINE: what is wrong".
absl::StatusOr<std::vector<Manifest>> ReadYaml(std::string_view file, std::string_view yaml,
                                               const ManifestLimits& limits);

// spec.tfReplicaSpecs[PS].x[0] and spec.tfReplicaSpecs.PS.x.0 both become the latter.
std::string NormalPath(std::string_view path);

}  // namespace tfjob
