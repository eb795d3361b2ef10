// Reads YAML manifests as Kubernetes reads them (YAML 1.1 scalars into JSON) and remembers on which
// line each field stands. Hardened: size, depth and alias expansion are limited. Knows no TFJob
// fields.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operator/api/tfjob.h"

namespace tfjob {

struct ManifestLimits {
  size_t max_bytes = 4 << 20;  // of the file
  int max_depth = 64;          // of nesting
  size_t max_nodes = 200'000;  // of the whole file after alias expansion
};

// One YAML document.
struct Manifest {
  std::string file;  // as given, for messages
  int line = 1;      // its first line
  Json json;
  std::map<std::string, int> lines;  // normalised path → line; use LineOf

  // The value of "kind", "" when there is none.
  std::string kind() const;
  // The line of a field given as spec.tfReplicaSpecs[PS].template.spec.containers[0].image; of its
  // nearest ancestor that is in the file when the field itself is not.
  int LineOf(std::string_view path) const;
};

// Every document of a file; empty ones are skipped. kInvalidArgument "FILE:LINE: what is wrong".
absl::StatusOr<std::vector<Manifest>> ParseManifests(std::string_view file, std::string_view yaml,
                                                     const ManifestLimits& limits = {});

// The text of a file ("-" is standard input), at most one byte more than allowed, so that the limit
// is noticed without reading all of it. kInvalidArgument when it cannot be read.
absl::StatusOr<std::string> ReadManifestText(const std::string& path,
                                             const ManifestLimits& limits = {});

// Every document of a file on disk, or of standard input.
absl::StatusOr<std::vector<Manifest>> ReadManifests(const std::string& path,
                                                    const ManifestLimits& limits = {});

// Only the documents of kind TFJob. kInvalidArgument when there is none: says which kinds it found.
absl::StatusOr<std::vector<Manifest>> ReadTfJobManifests(const std::string& path,
                                                         const ManifestLimits& limits = {});

}  // namespace tfjob
