// Hands out the GPUs of this machine: nvidia.com/gpu limits become disjoint CUDA_VISIBLE_DEVICES.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/api/tfjob.h"

namespace tfjob {

// The devices to hand out. `flag` is --gpus: a count, or indexes with a comma. Without it: every
// nvidia[0-9]* in `device_folder` that `visible`, the CUDA_VISIBLE_DEVICES of our own environment,
// allows. kInvalidArgument for a flag that is neither.
absl::StatusOr<std::vector<std::string>> FindGpus(const std::optional<std::string>& flag,
                                                  const std::optional<std::string>& visible,
                                                  const std::string& device_folder = "/dev");

// resources.limits (or requests) of nvidia.com/gpu, 0 when there is none. kInvalidArgument if it is
// not a whole number.
absl::StatusOr<int> GpusOfContainer(const Json& container);

// CUDA_VISIBLE_DEVICES for a container that was given `assigned`. If the manifest sets the variable
// itself, its indexes count within what was assigned, as they do in a cluster.
std::string VisibleDevices(const std::vector<std::string>& assigned,
                           const std::optional<std::string>& wanted);

// Not thread-safe.
class GpuPool {
 public:
  explicit GpuPool(const std::vector<std::string>& gpus) : free_(gpus), total_(gpus.size()) {}
  // `count` GPUs, lowest first; nullopt if not so many are free.
  std::optional<std::vector<std::string>> Take(int count);
  void GiveBack(const std::vector<std::string>& gpus);
  int total() const { return static_cast<int>(total_); }
  int free() const { return static_cast<int>(free_.size()); }

 private:
  std::vector<std::string> free_;
  const size_t total_;
};

}  // namespace tfjob
