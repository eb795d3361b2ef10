// Training with variables, slots and moving averages on the GPU: a step sends examples there and
// gets a loss back. The trainer's loop does not use it yet (docs/gpus.md).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/cuda/plugin.h"
#include "trainer/model/backend.h"
#include "trainer/model/optimizer.h"

namespace trainer {

struct ResidentOptions {
  int device = 0;  // as the plug-in counts
  int64_t batch_size = 100;
  OptimizerOptions optimizer;
  bool ema = false;        // keep moving averages
  float clip_norm = 0.0f;  // largest global norm of the gradients; 0 = off
  double memory_fraction = 1.0;
  bool allow_growth = false;
  bool allow_tf32 = false;
};

// Flat buffers of parameter_count() elements; slots: as many as SlotNames; ema: empty without.
struct ResidentState {
  std::vector<float> parameters;
  std::vector<std::vector<float>> slots;
  std::vector<float> ema;
};

// Not thread-safe.
class ResidentProgram {
 public:
  virtual ~ResidentProgram() = default;

  // To the device, and back.
  virtual absl::Status Load(const ResidentState& state) = 0;
  virtual absl::StatusOr<ResidentState> Store() = 0;

  // One whole step; returns the loss before it. update, ema_decay: as in UpdateArgs.
  // kOutOfRange when the loss is NaN or Inf: the variables are then spoilt.
  // REQUIRES: a Load before.
  virtual absl::StatusOr<float> Train(const Batch& batch, float learning_rate, int64_t update,
                                      float ema_decay) = 0;
};

// Errors as of the CUDA backend's Compile.
absl::StatusOr<std::unique_ptr<ResidentProgram>> MakeResidentProgram(
    std::shared_ptr<const cuda::Plugin> plugin, std::shared_ptr<const Model> model,
    const ResidentOptions& options);

}  // namespace trainer
