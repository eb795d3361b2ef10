// The devices of this machine: what there is, whether it works, and which layer runs where.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/model/device_name.h"
#include "trainer/model/model.h"

namespace trainer {

// What decides about devices from outside; read by main.
struct DeviceEnvironment {
  std::optional<std::string>
      cuda_visible_devices;  // the variable CUDA_VISIBLE_DEVICES; "" = CPU only
  std::string root;          // put before /proc and /dev, for tests
};

struct DeviceInfo {
  DeviceName device;
  std::string name;  // "Intel(R) Xeon(R) …"
  int cores = 0;     // CPUs: that this process may use
  int64_t memory_used_bytes = 0;
  int64_t memory_total_bytes = 0;
  std::string compute_capability;  // GPUs: "9.0"
  std::string pci_bus_id;          // GPUs
  std::string driver;              // GPUs
  absl::Status check;              // whether [1,2,3] + [1,2,3] gave [2,4,6]
};

struct DeviceInventory {
  std::vector<DeviceInfo> devices;  // the CPU first
  std::string no_gpu_reason;        // why there is no usable GPU; "" = there is one

  bool Has(const DeviceName& device) const;
};

// Looks for devices and tries each one out.
DeviceInventory FindDevices(const DeviceEnvironment& environment);

// kInvalidArgument with the reason when there is no usable GPU (--require_gpu).
absl::Status RequireGpu(const DeviceInventory& inventory);

// The table of `trainer devices`, with the reason why there is no GPU below it.
std::string DeviceTable(const DeviceInventory& inventory);

// `trainer devices`: prints the table; exit code 2 when require_gpu and there is none, 1 when a
// device fails its check.
int DevicesMain(bool require_gpu, const DeviceEnvironment& environment);

// Where the layers of a model run.
struct Placements {
  std::vector<DeviceName> layers;     // one for each layer
  std::vector<std::string> warnings;  // one for each device that is not there, to be logged once
};
// Resolves each layer's `device:`; "" means default_device. A device that is not there becomes the
// CPU with a warning where allow_soft_placement; otherwise kInvalidArgument names op and device.
absl::StatusOr<Placements> PlaceLayers(const Model& model, const DeviceInventory& inventory,
                                       const DeviceName& default_device, bool allow_soft_placement);

// The lines of --log_device_placement: one a device, one a layer, one a variable.
// task: "/job:worker/replica:0/task:0". variable_devices: full names, one for each variable, as the
// placement on parameter servers says; empty = the variables live in this task.
std::vector<std::string> DevicePlacementLines(const Model& model, const DeviceInventory& inventory,
                                              const Placements& placements, std::string_view task,
                                              std::span<const std::string> variable_devices);

}  // namespace trainer
