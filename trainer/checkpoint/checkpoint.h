// Checkpoints in TensorFlow's V2 bundle format: DIR/model.ckpt-STEP.index, one .data file a ps, and
// the text file DIR/checkpoint. Each ps writes its own data file; the chief writes the index last,
// which is what makes a checkpoint complete. All files appear whole or not at all.
//
// Errors are DataErrors (exit 3) that name the path. Functions are thread-safe; the chief alone
// prepares, finishes and sweeps, one checkpoint at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/durable_file.h"
#include "trainer/model/model.h"
#include "trainer/model/optimizer.h"
#include "trainer/ps/job_config.h"
#include "trainer/ps/server.h"

namespace trainer {

inline constexpr std::string_view kAverageSuffix = "/ExponentialMovingAverage";

// "DIR/model.ckpt-STEP".
std::string CheckpointPrefix(const std::string& dir, int64_t step);

struct CheckpointInfo {
  std::string prefix;
  int64_t step = 0;  // the one in the name
};

// --- Writing ---

// Makes `dir` ready for the checkpoint of `step`: creates the folder, removes what an interrupted
// attempt at the same step left. Returns the prefix, or nullopt if a complete checkpoint of that
// step is there already: there is nothing to save then, and it must not be overwritten.
absl::StatusOr<std::optional<std::string>> PrepareCheckpoint(const std::string& dir, int64_t step,
                                                             Files* files = Files::Real());

// Writes data file `shard` of `shard_count`. Shard 0 adds `global_step`; a shard that holds Adam
// slots adds `beta1_power` and `beta2_power`, for which `optimizer` is needed. Returns the entries
// for FinishCheckpoint, opaque and small.
absl::StatusOr<std::string> WriteShard(const ShardState& state, const std::string& prefix,
                                       int shard, int shard_count,
                                       const OptimizerOptions& optimizer = {},
                                       Files* files = Files::Real());

// Checks that the shards together make whole tensors and that their data files can be seen here,
// writes the index, then names the checkpoint in DIR/checkpoint. entries[i]: what WriteShard
// returned for shard i.
absl::Status FinishCheckpoint(const std::string& prefix, const std::vector<std::string>& entries,
                              Files* files = Files::Real());

// Removes complete checkpoints beyond the newest `max_to_keep` (0 = keep all), incomplete ones and
// temporary files. Never the newest complete one, nor anything of `writing` (a prefix, may be
// empty), nor any file of another name. Returns the number of files removed.
absl::StatusOr<int> Sweep(const std::string& dir, int max_to_keep, const std::string& writing = "",
                          Files* files = Files::Real());

// --- Reading ---

// The checkpoint of the highest step whose index and data files are there, have the right sizes and
// match their checksums. Others are skipped with a logged warning that names them and the reason.
// nullopt: none, or no such folder.
absl::StatusOr<std::optional<CheckpointInfo>> FindNewestComplete(const std::string& dir);

// Why `prefix` cannot be restored; OK if it can. Reads every byte once, in small pieces.
absl::Status VerifyCheckpoint(const std::string& prefix);

// Fills in the values of `wanted` (names, shapes, rows) and its global_step, however the tensors
// were split over ps tasks when they were saved. Lists every tensor that is missing or of another
// shape.
absl::StatusOr<ShardState> ReadSlices(const std::string& prefix, ShardState wanted);

// The hooks that a ps needs.
ShardWriter MakeShardWriter(const OptimizerOptions& optimizer);
ShardReader MakeShardReader();

struct CheckpointTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;  // row-major
};
struct Checkpoint {
  int64_t global_step = 0;
  std::map<std::string, CheckpointTensor> tensors;  // all f32 tensors, whole
};
absl::StatusOr<Checkpoint> ReadTensors(const std::string& prefix);

// Copies the variables (or, with `averages`, their moving averages where the checkpoint has them)
// into the model's flat buffer. DataError with the list of differences as CompareToModel.
absl::Status FillParameters(const Checkpoint& checkpoint, std::span<const Variable> variables,
                            bool averages, std::span<float> parameters);

// DataError with one line for each difference between the checkpoint and a model's variables:
// missing, of another shape, or extra (not a slot, average or scalar of a known variable).
absl::Status CompareToModel(const std::string& prefix, std::span<const Variable> variables);

}  // namespace trainer
