// ConfigMaps and Secrets that stand in the manifest beside the job: the only ones a local run
// knows. PURE.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/cli/manifest.h"

namespace tfjob {

// Key → content. Binary data is decoded.
using ConfigData = std::map<std::string, std::string>;

struct ConfigObjects {
  std::map<std::string, ConfigData> config_maps;
  std::map<std::string, ConfigData> secrets;
};

// Errors are kInvalidArgument "FILE:LINE: …": no name, a value that is not a string, bad base64.
absl::StatusOr<ConfigObjects> ReadConfigObjects(const std::vector<Manifest>& manifests);

}  // namespace tfjob
