// Optimisers over flat f32 ranges: one fused pass updates parameters, slots and moving averages.
// PURE. Used by the parameter server's store and by single-process training.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace trainer {

enum class OptimizerKind { kSgd, kMomentum, kAdam, kAdagrad };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;
  float momentum = 0.9f;                   // kMomentum
  float beta1 = 0.9f;                      // kAdam
  float beta2 = 0.999f;                    // kAdam
  float epsilon = 1e-8f;                   // kAdam
  float initial_accumulator_value = 0.1f;  // kAdagrad
};

// "sgd", "momentum", "adam", "adagrad"; kInvalidArgument names the choices otherwise.
absl::StatusOr<OptimizerKind> ParseOptimizerKind(std::string_view name);
std::string_view OptimizerName(OptimizerKind kind);

// Names that TensorFlow gives the slots in checkpoints ("<variable>/<slot>"): {} for SGD,
// {"Momentum"}, {"Adam", "Adam_1"}, {"Adagrad"}. One flat buffer each.
std::vector<std::string> SlotNames(OptimizerKind kind);
// The value that slot `slot` starts with.
float SlotInitialValue(const OptimizerOptions& options, int slot);

// All spans are of one length n (slots: as many as SlotNames; ema: n, or empty for no averages).
struct UpdateArgs {
  std::span<const float> gradient;
  float gradient_scale = 1.0f;  // gradient · scale is applied (1/n for averages)
  std::span<const float> old_parameters;
  std::span<float> new_parameters;  // may be the same memory as old_parameters
  std::vector<std::span<float>> slots;
  float learning_rate = 0.0f;
  int64_t update = 1;  // 1-based number of this update (Adam's t)
  std::span<const float> old_ema;
  std::span<float> new_ema;  // may be the same memory as old_ema
  float ema_decay = 0.0f;    // new_ema = d·old_ema + (1-d)·new_parameters
};

// One update, elementwise. Formulas as TensorFlow's GradientDescent, Momentum (no Nesterov), Adam
// (epsilon outside the root's bias correction: "epsilon hat") and Adagrad.
void ApplyUpdate(const OptimizerOptions& options, const UpdateArgs& args);

// Scales `gradient` so that its global L2 norm is at most max_norm; returns the norm before.
float ClipByGlobalNorm(float max_norm, std::span<float> gradient);

}  // namespace trainer
