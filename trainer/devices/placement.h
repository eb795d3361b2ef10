// Which layer runs where. A model runs on one device, or as towers on several GPUs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/devices/inventory.h"
#include "trainer/model/device_name.h"
#include "trainer/model/model.h"

namespace trainer {

struct Placements {
  DeviceName device;                  // of every layer
  std::vector<std::string> warnings;  // to be logged once
};

// Resolves each layer's `device:`; a layer without one goes with the first that names a GPU, else
// to default_device. A device that is not there, or layers on several devices, put the model on the
// CPU with a warning where allow_soft_placement; otherwise kInvalidArgument names op and device.
absl::StatusOr<Placements> PlaceLayers(const Model& model, const DeviceInventory& inventory,
                                       const DeviceName& default_device, bool allow_soft_placement);

// The lines of --log_device_placement: one a device, one a layer, one a variable.
// task: "/job:worker/replica:0/task:0". variable_devices: full names, one for each variable, as the
// placement on parameter servers says; empty = the variables live in this task.
std::vector<std::string> DevicePlacementLines(const Model& model, const DeviceInventory& inventory,
                                              const DeviceName& device, std::string_view task,
                                              std::span<const std::string> variable_devices);

}  // namespace trainer
