#include "trainer/devices/placement.h"

#include <set>

#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"

namespace trainer {
namespace {

// "layer1", or the kind and number of a layer without a name.
std::string OpName(const Layer& layer, size_t index) {
  if (!layer.spec.name.empty()) return layer.spec.name;
  return base::StrCat(LayerKindName(layer.spec.kind), "_", index + 1);
}

std::string DeviceLine(const DeviceInfo& info, std::string_view task) {
  const std::string start = base::StrCat(task, "/device:", ToString(info.device),
                                         " -> device: ", info.device.index, ", name: ", info.name);
  if (info.device.type == DeviceType::kCpu) {
    return base::StrCat(start, ", cores: ", info.cores, ", memory: ", MemoryText(info));
  }
  return base::StrCat(start, ", pci bus id: ", info.pci_bus_id,
                      ", compute capability: ", info.compute_capability);
}

// Why `device` is not to be had, or "".
std::string WhyNot(const DeviceInventory& inventory, const DeviceName& device) {
  if (inventory.Has(device)) return "";
  for (const DeviceInfo& info : inventory.devices) {
    if (info.device == device && !info.check.ok()) return std::string(info.check.message());
  }
  const bool no_gpus = device.type == DeviceType::kGpu && !inventory.no_gpu_reason.empty();
  return no_gpus ? inventory.no_gpu_reason : "there is no such device";
}

// What the layers ask for, with default_device for those that do not.
absl::StatusOr<std::vector<DeviceName>> AskedDevices(const Model& model,
                                                     const DeviceName& default_device) {
  std::vector<DeviceName> asked(model.layers().size(), default_device);
  const DeviceName* named_gpu = nullptr;
  for (size_t i = 0; i < asked.size(); ++i) {
    const std::string& name = model.layers()[i].spec.device;
    if (name.empty()) continue;
    ASSIGN_OR_RETURN(asked[i], ParseDeviceName(name));
    if (named_gpu == nullptr && asked[i].type == DeviceType::kGpu) named_gpu = &asked[i];
  }
  for (size_t i = 0; named_gpu != nullptr && i < asked.size(); ++i) {
    if (model.layers()[i].spec.device.empty()) asked[i] = *named_gpu;
  }
  return asked;
}

}  // namespace

absl::StatusOr<Placements> PlaceLayers(const Model& model, const DeviceInventory& inventory,
                                       const DeviceName& default_device,
                                       bool allow_soft_placement) {
  ASSIGN_OR_RETURN(std::vector<DeviceName> asked, AskedDevices(model, default_device));
  Placements placements;
  std::set<std::string> warned;
  const auto fall_back = [&](size_t i, const std::string& why) -> absl::Status {
    const std::string problem =
        base::StrCat("op ", OpName(model.layers()[i], i),
                     " cannot run on /device:", ToString(asked[i]), ": ", why);
    if (!allow_soft_placement) {
      return base::UsageError(
          base::StrCat(problem, "; --allow_soft_placement would put it on the CPU"));
    }
    if (warned.insert(ToString(asked[i])).second) {
      placements.warnings.push_back(base::StrCat(problem, "; it runs on the CPU"));
    }
    return absl::OkStatus();
  };
  for (size_t i = 0; i < asked.size(); ++i) {
    const std::string why = WhyNot(inventory, asked[i]);
    if (why.empty()) continue;
    RETURN_IF_ERROR(fall_back(i, why));
    asked[i] = DeviceName{};
  }
  for (size_t i = 1; i < asked.size(); ++i) {
    if (asked[i] == asked[0]) continue;
    // The CPU is what all can fall back to, so the one that is told off is on a GPU.
    const size_t off = asked[i].type == DeviceType::kGpu ? i : 0;
    const size_t other = off == i ? 0 : i;
    RETURN_IF_ERROR(fall_back(off, base::StrCat("op ", OpName(model.layers()[other], other),
                                                " is on /device:", ToString(asked[other]),
                                                " and a model runs on one device")));
    return placements;
  }
  if (!asked.empty()) placements.device = asked[0];
  return placements;
}

std::vector<std::string> DevicePlacementLines(const Model& model, const DeviceInventory& inventory,
                                              const DeviceName& device, std::string_view task,
                                              std::span<const std::string> variable_devices) {
  std::vector<std::string> lines;
  for (const DeviceInfo& info : inventory.devices) {
    if (info.usable()) lines.push_back(DeviceLine(info, task));
  }
  for (size_t i = 0; i < model.layers().size(); ++i) {
    const Layer& layer = model.layers()[i];
    lines.push_back(base::StrCat(OpName(layer, i), ": (", LayerKindName(layer.spec.kind),
                                 "): ", task, "/device:", ToString(device)));
  }
  for (size_t i = 0; i < model.variables().size(); ++i) {
    const std::string own = base::StrCat(task, "/device:CPU:0");
    lines.push_back(base::StrCat(model.variables()[i].name, ": (variable): ",
                                 variable_devices.empty() ? own : variable_devices[i]));
  }
  return lines;
}

}  // namespace trainer
