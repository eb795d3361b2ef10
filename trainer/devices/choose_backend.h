// Decides where a task computes, from its flags, its model and the machine's devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/devices/inventory.h"
#include "trainer/devices/placement.h"
#include "trainer/model/backend.h"

namespace trainer {

struct DeviceChoice {
  int task_index = 0;  // of a worker: i takes GPU i mod N
  int num_gpus = 0;    // towers on GPUs of their own; 0 = one GPU where there is one
  bool require_gpu = false;
  bool allow_soft_placement = true;
  double memory_fraction = 1.0;
  bool allow_growth = false;
  bool allow_tf32 = false;
};

// Where a task computes.
struct Chosen {
  std::unique_ptr<Backend> backend;
  Placements placements;
  std::vector<int> gpus;  // that it uses; empty = the CPU
};

// kInvalidArgument: a GPU is required, or asked for without soft placement, and cannot be had.
absl::StatusOr<Chosen> ChooseBackend(const Model& model, const DeviceInventory& inventory,
                                     const DeviceChoice& choice);

}  // namespace trainer
