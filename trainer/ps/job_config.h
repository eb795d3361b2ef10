// What a parameter server must know about a job to hold a shard of it. Values only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/model/model.h"
#include "trainer/model/optimizer.h"
#include "trainer/model/schedule.h"
#include "trainer/ps/partition.h"

namespace trainer {

// Sent by the chief to every ps, the same for all of them.
struct JobConfig {
  std::vector<Variable> variables;  // names, shapes, offsets: the model's
  Placement placement = Placement::kRoundRobin;
  OptimizerOptions optimizer;
  LearningRateSchedule schedule;
  float ema_decay = 0.0f;  // 0 = no moving averages
  int64_t last_step = 0;   // no update is applied beyond this global step; 0 = no limit
  bool sync = false;
  int replicas_to_aggregate = 1;  // sync: gradients averaged into one update
  int total_num_replicas = 1;     // sync: tokens released per update
};

// One named, contiguous piece of a shard's state: a variable, one of its slots or its average.
// A variable that is split over ps tasks is stored as a block of rows.
struct StateSlice {
  std::string name;  // "layer1/weights", "layer1/weights/Adam", "…/ExponentialMovingAverage"
  std::vector<int64_t> shape;  // of the whole variable
  int64_t first_row = 0;       // along the first axis; 0 for a whole variable
  int64_t row_count = -1;      // -1 = the whole variable
  std::vector<float> values;   // row-major
  // Instead of values, where they lie elsewhere for as long as the slice is used.
  std::span<const float> borrowed;
  std::span<const float> elements() const { return values.empty() ? borrowed : values; }
};

// Everything that a checkpoint keeps of a shard.
struct ShardState {
  int64_t global_step = 0;
  std::vector<StateSlice> slices;
};

}  // namespace trainer
