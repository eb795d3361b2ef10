// The one interface to arithmetic. A Backend compiles a Model for a batch size into a Program,
// which runs whole forward and backward passes over flat buffers, so that CPU and GPU code may fuse
// freely.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/model/model.h"
#include "trainer/model/team.h"

namespace trainer {

// N examples. Borrowed memory.
struct Batch {
  int64_t size = 0;                 // N
  std::span<const float> inputs;    // (N, input_size) row-major
  std::span<const int32_t> labels;  // (N): classification
  std::span<const float> targets;   // (N, output_size): regression
  uint64_t dropout_seed = 0;        // with the same seed, the same units are dropped
};

enum class ComputeDtype {
  kF32,
  kBf16
};  // kBf16: bf16 inputs to matrix products, f32 sums and master weights

struct ProgramOptions {
  int64_t batch_size = 100;  // the largest batch; smaller ones are accepted
  bool training = true;      // false: no backward pass, dropout off
  ComputeDtype compute_dtype = ComputeDtype::kF32;
  int threads = 1;     // threads inside one operation
  std::string device;  // "/cpu:0"; "" = the backend's first
  // Runs operations instead of `threads` threads of the program's own; null = these. Shared with
  // nobody while the program runs.
  std::shared_ptr<Team> team;
};

// Not thread-safe: one Program a thread; several may run side by side.
class Program {
 public:
  virtual ~Program() = default;

  // One forward and backward pass. parameters, gradients: parameter_count() elements; gradients are
  // overwritten. Returns the loss (reduced as the model says, L2 term included; its gradient is in
  // `gradients` too). kOutOfRange when the loss is NaN or Inf.
  // REQUIRES: options.training; batch.size <= options.batch_size.
  virtual absl::StatusOr<float> Gradients(const Batch& batch, std::span<const float> parameters,
                                          std::span<float> gradients) = 0;

  // Forward pass without dropout. outputs: (N, output_size) row-major (logits for cross-entropy).
  virtual absl::Status Forward(const Batch& batch, std::span<const float> parameters,
                               std::span<float> outputs) = 0;
};

// Thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // "cpu", "cuda"
  virtual absl::StatusOr<std::unique_ptr<Program>> Compile(std::shared_ptr<const Model> model,
                                                           const ProgramOptions& options) = 0;
};

}  // namespace trainer
