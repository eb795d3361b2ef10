// From a Pod object to what its containers need as processes: command lines, environments, mounts,
// ports, GPUs. Everything that can be wrong with a pod is found here, before anything starts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/cli/local_hosts.h"
#include "operator/cli/ports.h"
#include "operator/cli/process.h"
#include "operator/cli/volumes.h"
#include "operator/reconcile/plan.h"

namespace tfjob {

struct LocalPodOptions {
  std::string job;
  std::string namespace_name;
  std::string work_dir;     // absolute
  std::string program_dir;  // where `trainer` is looked for first
  Environment inherited;    // what containers get from our own environment
  ConfigObjects config;
  LocalHosts hosts;
  SandboxSupport sandbox;
  bool no_sandbox = false;  // asked for: rewrite paths instead
  std::string node_name;
  int cores = 1;
  int64_t memory_bytes = 0;
  int compute_pods = 1;  // pods of the job that are not parameter servers: they share the cores
};

struct ContainerSetup {
  std::string name;
  std::string label;  // of its log lines: worker-0, worker-0/sidecar
  std::string log_path;
  ProcessSpec process;                        // without its environment
  Environment environment;                    // without CUDA_VISIBLE_DEVICES
  std::optional<std::string> wanted_devices;  // CUDA_VISIBLE_DEVICES as the manifest sets it
  int gpus = 0;
  std::vector<Mount> mounts;
};

struct PodSetup {
  std::string name;
  std::string label;  // the name without the job's
  std::string type;
  int index = 0;
  Json object;
  std::vector<ContainerSetup> containers;  // init containers first, as in PodLife
  int gpus = 0;
  int metrics_port = 0;
  std::vector<std::string> port_keys;  // to release when the containers start
};

// The port key of a task: worker-0.
std::string TaskPortKey(const std::string& type, int index);

// Not thread-safe.
class PodPreparer {
 public:
  // REQUIRES: ports outlives it.
  PodPreparer(LocalPodOptions options, std::map<std::string, std::string> mapped_volumes,
              PortReserver& ports);

  // One that the plan makes, beside those of the manifest.
  void AddSecret(const std::string& name, ConfigData data);

  // kInvalidArgument "pod NAME: container …": what, where, what to do.
  absl::StatusOr<PodSetup> Prepare(const CreatePod& action);
  const Volumes& volumes() const { return volumes_; }

 private:
  absl::StatusOr<ContainerSetup> PrepareContainer(const Json& container, const PodContext& context,
                                                  const PodSetup& pod);
  Environment LocalVariables(const PodSetup& pod, const std::string& container) const;
  absl::Status SetCommand(const Json& container, const CommandLine& line,
                          ContainerSetup& setup) const;
  absl::Status SetRoot(const std::vector<Mount>& mounts, ContainerSetup& setup) const;

  LocalPodOptions options_;
  Volumes volumes_;
  PortReserver& ports_;
};

// The folder of this machine that the trainer of this pod writes checkpoints to, from its
// --checkpoint_dir;
// "" if it has none.
std::string CheckpointFolder(const PodSetup& pod);

// Whether an image is the trainer's, whatever its registry and tag: …/trainyard/trainer,
// trainyard-trainer.
bool IsTrainerImage(std::string_view image);

}  // namespace tfjob
