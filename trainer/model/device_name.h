// Device names as users write them. PURE.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace trainer {

enum class DeviceType { kCpu, kGpu };

struct DeviceName {
  DeviceType type = DeviceType::kCpu;
  int index = 0;
  bool operator==(const DeviceName&) const = default;
};

// "/cpu:0", "/gpu:1", "/device:GPU:1" (any case), or with a task in front
// ("/job:worker/task:0/gpu:1"). kInvalidArgument otherwise.
absl::StatusOr<DeviceName> ParseDeviceName(std::string_view name);

// "CPU:0", as it stands after "/device:" in full names.
std::string ToString(const DeviceName& device);

}  // namespace trainer
