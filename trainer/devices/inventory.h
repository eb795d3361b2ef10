// The devices of this machine: what there is, and whether it works.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/cuda/plugin.h"
#include "trainer/model/device_name.h"

namespace trainer {

// What decides about devices from outside; read by main.
struct DeviceEnvironment {
  std::optional<std::string>
      cuda_visible_devices;  // the variable CUDA_VISIBLE_DEVICES; "" = CPU only
  std::string root;          // put before /proc, for tests
  std::string plugin;        // the GPU plug-in; "" = where it is installed (cuda::FindPlugin)
  std::string nvml = "libnvidia-ml.so.1";
};

struct DeviceInfo {
  DeviceName device;
  std::string name;  // "Intel(R) Xeon(R) …"
  int cores = 0;     // CPUs: that this process may use
  int64_t memory_used_bytes = 0;
  int64_t memory_total_bytes = 0;
  std::string compute_capability;  // GPUs: "9.0"
  std::string pci_bus_id;          // GPUs
  std::string driver;              // GPUs; "" = not known
  bool tried = true;               // false: seen, but there is nothing to compute on it with
  absl::Status check;              // whether [1,2,3] + [1,2,3] gave [2,4,6]

  bool usable() const { return tried && check.ok(); }
};

struct DeviceInventory {
  std::vector<DeviceInfo> devices;             // the CPU first
  std::string no_gpu_reason;                   // why there is no usable GPU; "" = there is one
  std::shared_ptr<const cuda::Plugin> plugin;  // null where there is no usable GPU

  // Whether it is there and works.
  bool Has(const DeviceName& device) const;
  // Numbers of the GPUs that work.
  std::vector<int> UsableGpus() const;
};

// Looks for devices and tries each one out. GPUs are those that CUDA shows to this process; where
// it can not be asked, those that the driver's management library lists, not usable. With
// CUDA_VISIBLE_DEVICES='' neither is asked.
DeviceInventory FindDevices(const DeviceEnvironment& environment);

// kInvalidArgument with the reason when there is no usable GPU (--require_gpu).
absl::Status RequireGpu(const DeviceInventory& inventory);

// "1.0/80.0 GiB": used and total.
std::string MemoryText(const DeviceInfo& info);

// The table of `trainer devices`, with the reason why there is no GPU below it.
std::string DeviceTable(const DeviceInventory& inventory);

// `trainer devices`: prints the table; exit code 2 when require_gpu and there is none, 1 when a
// device fails its check.
int DevicesMain(bool require_gpu, const DeviceEnvironment& environment);

}  // namespace trainer
