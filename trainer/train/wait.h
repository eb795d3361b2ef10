// Waiting for other tasks: interruptible pauses, a deadline, and a line every ten seconds that says
// what is being waited for.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace trainer {

// The step of the newest complete checkpoint, if that is `last_step` or later: training has ended
// already, and who is waited for may never come. Says so in the log. nullopt also where `dir` is
// empty or `last_step` is 0 (not known).
std::optional<int64_t> EndedAlready(const std::string& dir, int64_t last_step);

// One wait for tasks of the cluster. Not thread-safe.
class Waiter {
 public:
  // `timeout`: the whole wait.
  Waiter(absl::Duration timeout, std::stop_token stop);

  // Call after each look that found the wait not over. `missing` says who is waited for, e.g.
  // "/job:ps/task:1 (ps1:2222)". Logs every 10 s, pauses (20 ms at first, 0.5 s later), then
  // returns OK to look again; kCancelled when stopped; kUnavailable naming `missing` after the
  // timeout.
  absl::Status StillWaitingFor(const std::vector<std::string>& missing);

 private:
  absl::Duration timeout_;
  std::stop_token stop_;
  absl::Time start_;
  absl::Time next_log_;
  absl::Duration pause_;
};

}  // namespace trainer
