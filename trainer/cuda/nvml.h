// What NVIDIA's management library tells about the GPUs of this machine, with or without the
// plug-in. It counts all GPUs, whatever CUDA_VISIBLE_DEVICES says, in the order of their bus ids.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace trainer::cuda {

struct NvmlDevice {
  std::string name;
  std::string pci_bus_id;          // "0000:01:00.0"
  std::string compute_capability;  // "9.0"
  int64_t memory_used_bytes = 0;
  int64_t memory_total_bytes = 0;
};

struct NvmlDevices {
  std::string driver;  // "580.65.06"
  std::vector<NvmlDevice> devices;
};

// library: what dlopen is given, "libnvidia-ml.so.1". kNotFound: there is no such library (no
// driver is installed); kUnavailable: it does not work, with its reason.
absl::StatusOr<NvmlDevices> AskNvml(const std::string& library);

}  // namespace trainer::cuda
