// dlopen, one symbol, one version number.
#include "trainer/cuda/plugin.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/str_cat.h"

namespace trainer::cuda {
namespace {

absl::Status Unusable(const std::string& path, std::string_view why) {
  return absl::FailedPreconditionError(
      base::StrCat("the GPU plug-in ", path, " cannot be used: ", why));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Plugin>> Plugin::Load(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return absl::NotFoundError(base::StrCat("there is no GPU plug-in ", path));
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Unusable(path, dlerror());
  const auto entry = reinterpret_cast<TrainerCudaEntry>(dlsym(library, "trainer_cuda_api"));
  if (entry == nullptr) return Unusable(path, "it is not a plug-in of the trainer");
  const TrainerCudaApi* const api = entry();
  if (api->version != kTrainerCudaApiVersion) {
    return Unusable(path, base::StrCat("it has version ", api->version,
                                       " of the interface where this trainer has version ",
                                       int{kTrainerCudaApiVersion},
                                       "; use the plug-in that was built with this trainer"));
  }
  return std::shared_ptr<const Plugin>(new Plugin(path, api));
}

absl::StatusOr<int> Plugin::DeviceCount() const {
  int32_t count = 0;
  TrainerCudaError error = {};
  RETURN_IF_ERROR(ToStatus(api_->device_count(&count, &error), error));
  if (count < 1) return absl::FailedPreconditionError("the NVIDIA driver shows no GPU here");
  return count;
}

absl::StatusOr<TrainerCudaDevice> Plugin::Describe(int device) const {
  TrainerCudaDevice description = {};
  TrainerCudaError error = {};
  RETURN_IF_ERROR(ToStatus(api_->describe_device(device, &description, &error), error));
  return description;
}

absl::Status Plugin::CheckAdd(int device) const {
  const float values[] = {1, 2, 3};
  float sum[3] = {};
  TrainerCudaError error = {};
  RETURN_IF_ERROR(ToStatus(api_->add(device, values, values, 3, sum, &error), error));
  if (sum[0] == 2 && sum[1] == 4 && sum[2] == 6) return absl::OkStatus();
  return absl::InternalError(absl::StrFormat("[1,2,3]+[1,2,3] gave [%g,%g,%g] instead of [2,4,6]",
                                             sum[0], sum[1], sum[2]));
}

absl::Status Plugin::ToStatus(int32_t code, const TrainerCudaError& error) {
  switch (code) {
    case kTrainerCudaOk:
      return absl::OkStatus();
    case kTrainerCudaOutOfMemory:
      return absl::ResourceExhaustedError(base::StrCat("GPU memory: ", error.text));
    default:
      return absl::FailedPreconditionError(error.text);
  }
}

std::string FindPlugin(const std::string& named) {
  if (!named.empty()) return named;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return "";
  const auto folder = program.parent_path();
  for (const auto& path :
       {folder / "libtrainer_cuda.so", folder.parent_path() / "lib/trainyard/libtrainer_cuda.so"}) {
    if (std::filesystem::exists(path, error)) return path.string();
  }
  return "";
}

}  // namespace trainer::cuda
