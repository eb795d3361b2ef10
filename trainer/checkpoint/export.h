// Turns a checkpoint into safetensors (all tensors) or ONNX (the model's forward pass with its
// variables), for programs that know nothing of this one.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/model/model.h"

namespace trainer {

enum class ExportFormat { kSafetensors, kOnnx };
// "safetensors", "onnx"; UsageError names the choices otherwise.
absl::StatusOr<ExportFormat> ParseExportFormat(std::string_view name);

struct ExportOptions {
  std::string checkpoint;  // a prefix (DIR/model.ckpt-STEP), or a folder: its newest complete one
  std::string output;      // the file to write, atomically
  ExportFormat format = ExportFormat::kSafetensors;
  bool averages = true;  // ONNX: use the moving averages of the variables where there are any
  bool softmax = false;  // ONNX: end in class probabilities in place of logits
};

// The whole `trainer export` command. `model` is used by ONNX only and checked against the
// checkpoint.
absl::Status ExportCheckpoint(const Model& model, const ExportOptions& options);

// PURE. The bytes of a safetensors file: u64 little-endian length, JSON header (padded with blanks
// to 8 bytes), tensors in order of name. `__metadata__` holds the global step.
std::string EncodeSafetensors(const Checkpoint& checkpoint);

// PURE. A serialized ONNX ModelProto (opset 13, IR 8). Input "input": (N, input_shape…), images
// NHWC as in training; output "output": (N, output_size). REQUIRES: parameters has the model's flat
// size.
std::string EncodeOnnx(const Model& model, std::span<const float> parameters, bool softmax);

}  // namespace trainer
