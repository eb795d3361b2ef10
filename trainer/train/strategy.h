// How gradients become the next variables: alone, through parameter servers, or by all-reduce.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/ps/client.h"

namespace trainer {

// Used by one training thread, except Save. Errors: kUnavailable when the cluster could not be
// brought back within the wait timeout; kCancelled when `stop` was requested while waiting.
class TrainStrategy {
 public:
  virtual ~TrainStrategy() = default;

  // Waits for the others as needed and gets the first variables; as the chief, initialises or
  // restores them first.
  virtual absl::StatusOr<StepResult> Start(std::stop_token stop) = 0;

  // The current variables: the model's flat buffer. Valid until the next Start, Step or Averages.
  virtual std::span<const float> parameters() const = 0;

  // Where the gradients of the next step go: the model's flat buffer, perhaps memory that another
  // process sees. What lies there is left alone until the next call, but for averaging in Step.
  virtual std::span<float> gradients() = 0;

  // Hands in what was written to gradients(), computed from parameters(); returns when parameters()
  // is the next version.
  virtual absl::StatusOr<StepResult> Step(std::stop_token stop) = 0;

  // The moving averages, or the variables where the job keeps none.
  virtual absl::Status Averages(std::span<float> averages) = 0;

  // Chief: writes all data files of the checkpoint `prefix`. Thread-safe.
  virtual absl::StatusOr<std::vector<SavedShard>> Save(const std::string& prefix) = 0;

  // Chief: ends the job for everyone. Other tasks: leaves in good order.
  virtual absl::Status Finish() = 0;

  // Payload bytes since Start; 0 where there is no wire.
  virtual int64_t bytes_sent() const { return 0; }
  virtual int64_t bytes_received() const { return 0; }
};

}  // namespace trainer
