// Linux's /proc says what CPU and how much memory there is; CUDA, through the plug-in, which GPUs;
// the driver's management library what else is known of them.
#include "trainer/devices/inventory.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/cpu/kernels.h"
#include "trainer/cuda/nvml.h"

namespace trainer {
namespace {

// The value of the first line "key : value" of a /proc file, or "".
std::string ProcValue(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

int64_t ProcKilobytes(const std::string& path, std::string_view key) {
  std::istringstream value(ProcValue(path, key));
  int64_t kilobytes = 0;
  value >> kilobytes;
  return kilobytes * 1024;
}

int UsableCpus() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

absl::Status CheckCpu() {
  float sum[] = {1, 2, 3};
  const float other[] = {1, 2, 3};
  cpu::Add(other, 3, sum);
  if (sum[0] == 2 && sum[1] == 4 && sum[2] == 6) return absl::OkStatus();
  return absl::InternalError(absl::StrFormat("[1,2,3]+[1,2,3] gave [%g,%g,%g] instead of [2,4,6]",
                                             sum[0], sum[1], sum[2]));
}

DeviceInfo DescribeCpu(const std::string& root) {
  DeviceInfo info;
  info.name = ProcValue(root + "/proc/cpuinfo", "model name");
  if (info.name.empty()) info.name = "CPU";
  info.cores = UsableCpus();
  const std::string meminfo = root + "/proc/meminfo";
  info.memory_total_bytes = ProcKilobytes(meminfo, "MemTotal");
  info.memory_used_bytes = info.memory_total_bytes - ProcKilobytes(meminfo, "MemAvailable");
  info.check = CheckCpu();
  return info;
}

// Used memory and driver of the GPU with this bus id, where the management library knows it.
void AddFromNvml(const cuda::NvmlDevices& nvml, DeviceInfo& info) {
  info.driver = nvml.driver;
  for (const cuda::NvmlDevice& device : nvml.devices) {
    if (device.pci_bus_id != info.pci_bus_id) continue;
    info.memory_used_bytes = device.memory_used_bytes;
    info.memory_total_bytes = device.memory_total_bytes;
  }
}

absl::Status AddGpus(const cuda::Plugin& plugin, const absl::StatusOr<cuda::NvmlDevices>& nvml,
                     std::vector<DeviceInfo>& devices) {
  ASSIGN_OR_RETURN(const int count, plugin.DeviceCount());
  for (int i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const TrainerCudaDevice found, plugin.Describe(i));
    DeviceInfo info;
    info.device = {DeviceType::kGpu, i};
    info.name = found.name;
    info.memory_total_bytes = found.memory_total_bytes;
    info.memory_used_bytes = found.memory_total_bytes - found.memory_free_bytes;
    info.compute_capability = base::StrCat(found.compute_major, ".", found.compute_minor);
    info.pci_bus_id = found.pci_bus_id;
    info.check = plugin.CheckAdd(i);
    if (nvml.ok()) AddFromNvml(*nvml, info);
    devices.push_back(std::move(info));
  }
  return absl::OkStatus();
}

// GPUs that nothing here computes on.
void AddSeenGpus(const cuda::NvmlDevices& nvml, std::vector<DeviceInfo>& devices) {
  for (size_t i = 0; i < nvml.devices.size(); ++i) {
    const cuda::NvmlDevice& found = nvml.devices[i];
    DeviceInfo info;
    info.device = {DeviceType::kGpu, static_cast<int>(i)};
    info.name = found.name;
    info.memory_used_bytes = found.memory_used_bytes;
    info.memory_total_bytes = found.memory_total_bytes;
    info.compute_capability = found.compute_capability;
    info.pci_bus_id = found.pci_bus_id;
    info.driver = nvml.driver;
    info.tried = false;
    devices.push_back(std::move(info));
  }
}

bool HasDriver(const DeviceEnvironment& environment) {
  std::error_code ignored;
  return std::filesystem::exists(environment.root + "/proc/driver/nvidia/version", ignored);
}

// The plug-in where it can be used, else why not.
absl::StatusOr<std::shared_ptr<const cuda::Plugin>> LoadPlugin(const DeviceEnvironment& environment,
                                                               bool has_driver) {
  const std::string path = cuda::FindPlugin(environment.plugin);
  if (!path.empty()) return cuda::Plugin::Load(path);
  if (!has_driver) {
    return absl::FailedPreconditionError("no NVIDIA driver is loaded on this machine");
  }
  return absl::FailedPreconditionError(
      "this machine has an NVIDIA driver, but the GPU plug-in libtrainer_cuda.so is not installed "
      "beside the trainer (build with -DTRAINYARD_CUDA=ON, or name it in TRAINYARD_CUDA_PLUGIN)");
}

// Adds the GPUs; the reason where none is usable.
absl::Status FindGpus(const DeviceEnvironment& environment, DeviceInventory& inventory) {
  const std::optional<std::string>& visible = environment.cuda_visible_devices;
  if (visible && (visible->empty() || visible->starts_with("-"))) {
    return absl::FailedPreconditionError(
        base::StrCat("CUDA_VISIBLE_DEVICES='", *visible, "' hides all GPUs"));
  }
  const absl::StatusOr<cuda::NvmlDevices> nvml = cuda::AskNvml(environment.nvml);
  absl::StatusOr<std::shared_ptr<const cuda::Plugin>> plugin =
      LoadPlugin(environment, nvml.ok() || HasDriver(environment));
  absl::Status added = plugin.ok() ? AddGpus(**plugin, nvml, inventory.devices) : plugin.status();
  if (!added.ok()) {
    inventory.devices.resize(1);  // the CPU
    if (nvml.ok()) AddSeenGpus(*nvml, inventory.devices);
    return added;
  }
  if (inventory.UsableGpus().empty()) {
    return absl::FailedPreconditionError(
        base::StrCat("GPU:0 fails its check: ", inventory.devices[1].check.message()));
  }
  inventory.plugin = *std::move(plugin);
  return absl::OkStatus();
}

}  // namespace

bool DeviceInventory::Has(const DeviceName& device) const {
  return std::any_of(devices.begin(), devices.end(), [&](const DeviceInfo& info) {
    return info.device == device && info.usable();
  });
}

std::vector<int> DeviceInventory::UsableGpus() const {
  std::vector<int> gpus;
  for (const DeviceInfo& info : devices) {
    if (info.device.type == DeviceType::kGpu && info.usable()) gpus.push_back(info.device.index);
  }
  return gpus;
}

DeviceInventory FindDevices(const DeviceEnvironment& environment) {
  DeviceInventory inventory;
  inventory.devices.push_back(DescribeCpu(environment.root));
  inventory.no_gpu_reason = std::string(FindGpus(environment, inventory).message());
  return inventory;
}

absl::Status RequireGpu(const DeviceInventory& inventory) {
  if (inventory.no_gpu_reason.empty()) return absl::OkStatus();
  return base::UsageError(base::StrCat("--require_gpu: no usable GPU: ", inventory.no_gpu_reason));
}

}  // namespace trainer
