// Linux's /proc says what CPU and how much memory there is. GPUs are driven by a plug-in of their
// own; without a driver or the plug-in the reason is told and the CPU does the work.
#include "trainer/cpu/devices.h"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/str_format.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/cpu/kernels.h"

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

std::string NoGpuReason(const DeviceEnvironment& environment) {
  const std::optional<std::string>& visible = environment.cuda_visible_devices;
  if (visible && (visible->empty() || visible->starts_with("-"))) {
    return base::StrCat("CUDA_VISIBLE_DEVICES='", *visible, "' hides all GPUs");
  }
  std::error_code ignored;
  if (!std::filesystem::exists(environment.root + "/proc/driver/nvidia/version", ignored)) {
    return "no NVIDIA driver is loaded on this machine";
  }
  return "this machine has an NVIDIA driver, but the GPU plug-in libtrainer_cuda.so is not "
         "installed";
}

std::string Memory(const DeviceInfo& info) {
  constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
  return absl::StrFormat("%.1f/%.1f GiB", static_cast<double>(info.memory_used_bytes) / kGib,
                         static_cast<double>(info.memory_total_bytes) / kGib);
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

std::string Padded(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      line += row[c] + std::string(widths[c] - row[c].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

// "layer1", or the kind and number of a layer without a name.
std::string OpName(const Layer& layer, size_t index) {
  if (!layer.spec.name.empty()) return layer.spec.name;
  return base::StrCat(LayerKindName(layer.spec.kind), "_", index + 1);
}

std::string DeviceLine(const DeviceInfo& info, std::string_view task) {
  const std::string start = base::StrCat(task, "/device:", ToString(info.device),
                                         " -> device: ", info.device.index, ", name: ", info.name);
  if (info.device.type == DeviceType::kCpu) {
    return base::StrCat(start, ", cores: ", info.cores, ", memory: ", Memory(info));
  }
  return base::StrCat(start, ", pci bus id: ", info.pci_bus_id,
                      ", compute capability: ", info.compute_capability);
}

}  // namespace

bool DeviceInventory::Has(const DeviceName& device) const {
  return std::any_of(devices.begin(), devices.end(),
                     [&](const DeviceInfo& info) { return info.device == device; });
}

DeviceInventory FindDevices(const DeviceEnvironment& environment) {
  DeviceInventory inventory;
  inventory.devices.push_back(DescribeCpu(environment.root));
  inventory.no_gpu_reason = NoGpuReason(environment);
  return inventory;
}

absl::Status RequireGpu(const DeviceInventory& inventory) {
  if (inventory.no_gpu_reason.empty()) return absl::OkStatus();
  return base::UsageError(base::StrCat("--require_gpu: no usable GPU: ", inventory.no_gpu_reason));
}

std::string DeviceTable(const DeviceInventory& inventory) {
  std::vector<std::vector<std::string>> rows = {{"DEVICE", "NAME", "CORES", "MEMORY USED/TOTAL",
                                                 "COMPUTE CAPABILITY", "DRIVER",
                                                 "[1,2,3]+[1,2,3]"}};
  for (const DeviceInfo& info : inventory.devices) {
    rows.push_back({ToString(info.device), info.name,
                    info.cores > 0 ? std::to_string(info.cores) : "-", Memory(info),
                    OrDash(info.compute_capability), OrDash(info.driver),
                    info.check.ok() ? "[2,4,6]" : std::string(info.check.message())});
  }
  std::string text = Padded(rows);
  if (!inventory.no_gpu_reason.empty()) {
    text += base::StrCat("no usable GPU: ", inventory.no_gpu_reason, "\n");
  }
  return text;
}

int DevicesMain(bool require_gpu, const DeviceEnvironment& environment) {
  const DeviceInventory inventory = FindDevices(environment);
  std::fputs(DeviceTable(inventory).c_str(), stdout);
  if (const absl::Status status = RequireGpu(inventory); require_gpu && !status.ok()) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return base::ExitCodeFor(status);
  }
  const bool all_work = std::all_of(inventory.devices.begin(), inventory.devices.end(),
                                    [](const DeviceInfo& info) { return info.check.ok(); });
  return all_work ? base::kExitOk : base::kExitFailure;
}

absl::StatusOr<Placements> PlaceLayers(const Model& model, const DeviceInventory& inventory,
                                       const DeviceName& default_device,
                                       bool allow_soft_placement) {
  Placements placements;
  std::set<std::string> warned;
  for (size_t i = 0; i < model.layers().size(); ++i) {
    const Layer& layer = model.layers()[i];
    DeviceName device = default_device;
    if (!layer.spec.device.empty()) {
      ASSIGN_OR_RETURN(device, ParseDeviceName(layer.spec.device));
    }
    if (!inventory.Has(device)) {
      const std::string problem =
          base::StrCat("op ", OpName(layer, i), " cannot run on /device:", ToString(device), ": ",
                       device.type == DeviceType::kGpu && !inventory.no_gpu_reason.empty()
                           ? inventory.no_gpu_reason
                           : "there is no such device");
      if (!allow_soft_placement) {
        return base::UsageError(
            base::StrCat(problem, "; --allow_soft_placement would put it on the CPU"));
      }
      if (warned.insert(ToString(device)).second) {
        placements.warnings.push_back(base::StrCat(problem, "; it runs on the CPU"));
      }
      device = DeviceName{};
    }
    placements.layers.push_back(device);
  }
  return placements;
}

std::vector<std::string> DevicePlacementLines(const Model& model, const DeviceInventory& inventory,
                                              const Placements& placements, std::string_view task,
                                              std::span<const std::string> variable_devices) {
  std::vector<std::string> lines;
  for (const DeviceInfo& info : inventory.devices) lines.push_back(DeviceLine(info, task));
  for (size_t i = 0; i < model.layers().size(); ++i) {
    const Layer& layer = model.layers()[i];
    lines.push_back(base::StrCat(OpName(layer, i), ": (", LayerKindName(layer.spec.kind),
                                 "): ", task, "/device:", ToString(placements.layers[i])));
  }
  for (size_t i = 0; i < model.variables().size(); ++i) {
    const std::string own = base::StrCat(task, "/device:CPU:0");
    lines.push_back(base::StrCat(model.variables()[i].name, ": (variable): ",
                                 variable_devices.empty() ? own : variable_devices[i]));
  }
  return lines;
}

}  // namespace trainer
