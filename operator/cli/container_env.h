// The environment and command line of one container, resolved as the kubelet does it. PURE.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operator/cli/config_objects.h"

namespace tfjob {

// What a container's variables may refer to.
struct PodContext {
  const Json* pod = nullptr;  // the whole Pod object
  const ConfigObjects* config = nullptr;
  std::string node_name;
  std::string pod_ip = "127.0.0.1";
  int cores = 1;             // of this machine: a limits.cpu that is not set
  int64_t memory_bytes = 0;  // of this machine: a limits.memory that is not set
};

using Environment = std::map<std::string, std::string>;

// The variables that the manifest gives the container: envFrom, then env in order, with $(VAR)
// expanded from those before and valueFrom resolved (fieldRef, resourceFieldRef, configMapKeyRef,
// secretKeyRef). kInvalidArgument names the container and the variable.
absl::StatusOr<Environment> ContainerEnvironment(const Json& container, const PodContext& context);

// The value of a fieldRef such as metadata.labels['app']; kInvalidArgument for one that pods do not
// have.
absl::StatusOr<std::string> FieldOfPod(const std::string& field_path, const PodContext& context);
// The value of a resourceFieldRef, divided and rounded up as Kubernetes does.
absl::StatusOr<std::string> ResourceOfContainer(const Json& reference, const Json& container,
                                                const PodContext& context);

// command and args with $(VAR) expanded from the container's variables.
struct CommandLine {
  std::vector<std::string> command;
  std::vector<std::string> args;
};
CommandLine ContainerCommandLine(const Json& container, const Environment& environment);

}  // namespace tfjob
