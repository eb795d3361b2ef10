// Models and settings of a training as a user writes them in YAML (--config file.yaml).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "trainer/model/presets.h"

namespace trainer {

// Reads a file such as
//
//   preset: mnist-mlp            # start from its settings; the rest overrides them
//   name: wide                   # all keys are optional, but a file without preset needs
//   input_shape: [784]           # input_shape and layers
//   layers:
//     - {type: dense, units: 300, name: hidden, weights: {truncated_normal: 0.1}, bias: 0.0}
//     - relu                     # short for {type: relu}
//     - {type: dropout, rate: 0.3}
//     - {type: dense, units: 10, l2: false, device: /cpu:0}
//   loss: softmax_cross_entropy  # clipped_softmax_cross_entropy, mse
//   reduction: mean              # sum
//   l2: 0.0001
//   optimizer: {name: adam, beta1: 0.9, beta2: 0.999, epsilon: 1.0e-8}   # or just: adam
//   learning_rate: 0.8
//   learning_rate_decay: 0.99
//   decay_steps: 600             # default: as the preset; without one, 60000 / batch_size
//   staircase: false
//   ema_decay: 0.99
//   clip_norm: 5.0
//   batch_size: 100
//   train_steps: 10000           # or epochs: 20
//   data: mnist                  # linear
//
// conv2d takes units (or filters), kernel, stride, padding (same, valid); maxpool takes kernel,
// stride, padding. Layers with weights are named layer1, layer2, … unless told otherwise; their
// weights start truncated normal with σ = 0.1, their biases at 0.
// kInvalidArgument lists every problem, each as file:line, unknown keys with the nearest known one.
absl::StatusOr<TrainingSpec> LoadTrainingSpec(const std::string& path);

// The same from text; `origin` stands for the file in messages.
absl::StatusOr<TrainingSpec> ParseTrainingSpec(std::string_view yaml, std::string_view origin);

}  // namespace trainer
