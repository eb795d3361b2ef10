// Loads the GPU plug-in. Every reason why there is no GPU to compute on becomes one message that
// says what to do.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/cuda/plugin_api.h"

namespace trainer::cuda {

// Thread-safe; must outlive what was made through it. The library is never unloaded: CUDA's own
// threads may still be in it.
class Plugin {
 public:
  // path: a file. kNotFound: there is no such file; kFailedPrecondition: it cannot be used.
  static absl::StatusOr<std::shared_ptr<const Plugin>> Load(const std::string& path);

  const TrainerCudaApi& api() const { return *api_; }
  const std::string& path() const { return path_; }

  // Devices that CUDA shows to this process, at least 1; kFailedPrecondition: why there is none.
  absl::StatusOr<int> DeviceCount() const;
  absl::StatusOr<TrainerCudaDevice> Describe(int device) const;
  // Whether [1,2,3] + [1,2,3] gives [2,4,6] on the device.
  absl::Status CheckAdd(int device) const;

  // A status for what a function of the table returned.
  static absl::Status ToStatus(int32_t code, const TrainerCudaError& error);

 private:
  Plugin(std::string path, const TrainerCudaApi* api) : path_(std::move(path)), api_(api) {}

  const std::string path_;
  const TrainerCudaApi* const api_;
};

// Where the plug-in is looked for: `named`, unless that is ""; then libtrainer_cuda.so beside this
// program, then in ../lib/trainyard. "" = nowhere.
std::string FindPlugin(const std::string& named);

}  // namespace trainer::cuda
