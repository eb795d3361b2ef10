// What the two halves of checkpoint.h share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/durable_file.h"

namespace trainer {

// Steps of the checkpoints whose files are all there with the right sizes, ascending.
absl::StatusOr<std::vector<int64_t>> WholeSteps(const std::string& dir);

// Writes the text file `checkpoint` (TensorFlow's CheckpointState) that names `steps`, ascending;
// the paths are relative, so that the folder can be moved.
absl::Status WriteCheckpointState(const std::string& dir, std::span<const int64_t> steps,
                                  Files* files);

}  // namespace trainer
