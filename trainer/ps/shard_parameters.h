// One shard's numbers: weights in immutable buffers that replies share, optimiser slots and moving
// averages. Knows layout and arithmetic, but no versions, workers or locks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/model/team.h"
#include "trainer/ps/job_config.h"
#include "trainer/ps/partition.h"
#include "trainer/ps/tensor.h"

namespace trainer {

// A consistent copy of a shard, cheap to take: the weights are shared, the rest is copied.
struct ShardCopy {
  int64_t global_step = 0;
  SharedBuffer values;
  std::vector<SharedBuffer> slots;
  SharedBuffer averages;  // the weights without moving averages
};

// Not thread-safe, except that values() may be read anywhere once taken.
class ShardParameters {
 public:
  ShardParameters(JobConfig config, Shard shard);

  int64_t size() const { return shard_.size; }
  const JobConfig& config() const { return config_; }

  // Slots at their initial value, averages equal to `values`. REQUIRES: values.size() == size().
  void Initialize(const TensorSource& values);

  // Names and shapes of everything that a checkpoint keeps of this shard; no values.
  ShardState Describe() const;
  // Takes what a checkpoint kept, slices in the order of Describe(). kDataLoss names a slice that
  // is missing or of another size.
  absl::Status Load(const ShardState& state);

  // One update of the optimiser with gradient · scale; `step` is the number of updates before it:
  // rate and decay are functions of it. Publishes a new buffer. `team`: shares the work; null =
  // this thread alone. REQUIRES: gradient.size() == size().
  void Apply(const TensorSource& gradient, float scale, int64_t step, Team* team = nullptr);

  // The newest weights. Never written again.
  SharedBuffer values() const { return values_; }
  // A copy of the moving averages, or the weights where there are none.
  SharedBuffer Averages();

  ShardCopy Copy(int64_t step);
  // Turns a copy into named slices, which borrow from it; may run anywhere, as it reads only the
  // layout.
  ShardState ToState(const ShardCopy& copy) const;

 private:
  int64_t RowSize(const Segment& segment) const;
  SharedBuffer CopyOf(const FloatBuffer& buffer);
  void ApplyPart(const TensorSource& gradient, int64_t begin, int64_t end, UpdateArgs args,
                 FloatBuffer& next);
  StateSlice Slice(const Segment& segment, const std::string& suffix) const;

  const JobConfig config_;
  const Shard shard_;
  const std::vector<std::string> slot_names_;
  BufferPool pool_;
  SharedBuffer values_;
  std::vector<FloatBuffer> slots_;
  std::unique_ptr<FloatBuffer> averages_;
};

}  // namespace trainer
