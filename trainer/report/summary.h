// TensorBoard event files: scalars, histograms and the model's graph, written by a thread of its
// own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "trainer/data/durable_file.h"
#include "trainer/model/model.h"

namespace trainer {

struct SummaryOptions {
  std::string dir;                                   // created where missing
  absl::Duration flush_interval = absl::Seconds(5);  // longest time that an event stays in memory
  int64_t queue_bytes = 16 << 20;                    // a caller waits while more is queued
  base::Clock* clock = base::Clock::Real();          // wall times of the events
  Files* files = Files::Real();
};

// Where the ops and variables of the graph lie.
struct GraphDevices {
  std::string default_device;                    // of ops: "/job:worker/task:0/device:CPU:0"
  std::map<std::string, std::string> variables;  // by variable name: "/job:ps/task:0/device:CPU:0"
};

// Thread-safe. An error of the file (full volume) is logged once, further events are dropped and
// Close returns it: summaries never stop training.
class SummaryWriter {
 public:
  // Creates DIR/events.out.tfevents.SECONDS.HOST. DataError naming the path.
  static absl::StatusOr<std::unique_ptr<SummaryWriter>> Create(const SummaryOptions& options);
  virtual ~SummaryWriter() = default;  // as Close

  virtual void AddScalar(int64_t step, std::string_view tag, float value) = 0;
  // Copies the values; buckets are counted on the writer's thread. Values that are not finite are
  // left out.
  virtual void AddHistogram(int64_t step, std::string_view tag, std::span<const float> values) = 0;
  virtual void AddGraph(const Model& model, const GraphDevices& devices) = 0;
  // Waits until everything added so far is in the file.
  virtual absl::Status Flush() = 0;
  // Flushes and closes; later calls to Add… do nothing. Idempotent.
  virtual absl::Status Close() = 0;
};

}  // namespace trainer
