// Arithmetic on NVIDIA GPUs, through the plug-in.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/cuda/plugin.h"
#include "trainer/model/backend.h"

namespace trainer {

struct CudaBackendOptions {
  std::vector<int> devices;      // as the plug-in counts them; programs take them in turns
  double memory_fraction = 1.0;  // of each device's memory, (0, 1]
  bool allow_growth = false;     // take memory as it is needed rather than all of it at once
  bool allow_tf32 = false;       // matrix products round their inputs to TF32: faster, less exact
};

// Programs copy parameters to the device and gradients back with every step. bf16 is not there yet:
// a warning, and f32 instead. Compile fails with kResourceExhausted where the memory does not do.
// REQUIRES: at least one device.
std::unique_ptr<Backend> MakeCudaBackend(std::shared_ptr<const cuda::Plugin> plugin,
                                         const CudaBackendOptions& options);

}  // namespace trainer
