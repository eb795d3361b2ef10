// Keys that wait to be looked at. A key that is queued already is not queued twice; a key is given
// to one worker at a time, and comes back if it was added meanwhile. Priorities, delays and failure
// back-off per key.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"

namespace runtime {

// Keys of equal priority are taken in the order they came. Higher ones go first, but not for ever:
// a lower one that waits gets every ninth turn.
enum class Priority { kHigh, kNormal, kLow };

// Told of what happens, for metrics; any may be empty. Called on the thread that does it, without
// a lock.
struct WorkqueueObserver {
  std::function<void()> on_add;    // a key became due
  std::function<void()> on_retry;  // AddAfter, AddAfterFailure
  std::function<void(absl::Duration waited)> on_get;
  std::function<void(absl::Duration worked)> on_done;
};

struct WorkqueueOptions {
  base::Clock* clock = base::Clock::Steady();
  absl::Duration first_backoff = absl::Milliseconds(50);
  absl::Duration max_backoff = absl::Minutes(2);
  uint64_t seed = 0;  // of the jitter; 0 = another one each time
  WorkqueueObserver observer;
};

// Thread-safe. One wish a key: Add and AddAfter say when it is next due, the nearest wins, and of
// several wishes the highest priority.
class Workqueue {
 public:
  virtual ~Workqueue() = default;
  static std::unique_ptr<Workqueue> Create(const WorkqueueOptions& options = {});

  virtual void Add(const std::string& key, Priority priority = Priority::kNormal) = 0;
  // The earlier of this and an earlier wish wins; Add makes it due at once.
  virtual void AddAfter(const std::string& key, absl::Duration delay,
                        Priority priority = Priority::kNormal) = 0;
  // After 50 ms, 100 ms … with jitter of a fifth either way; Forget starts over. Not before
  // `at_least`.
  virtual void AddAfterFailure(const std::string& key,
                               absl::Duration at_least = absl::ZeroDuration()) = 0;
  virtual void Forget(const std::string& key) = 0;

  // Blocks until a key is due; nullopt when stopped or shut down. Done must follow.
  virtual std::optional<std::string> Get(std::stop_token stop) = 0;
  virtual void Done(const std::string& key) = 0;
  // From now on nothing is taken in or given out.
  virtual void ShutDown() = 0;

  virtual int depth() const = 0;                   // due and not yet taken
  virtual int delayed() const = 0;                 // due later
  virtual absl::Duration oldest_wait() const = 0;  // of those that are due
  virtual int failures(const std::string& key) const = 0;
  // Between Get and Done: how many, the longest so far, the sum of all so far.
  virtual int running() const = 0;
  virtual absl::Duration longest_running() const = 0;
  virtual absl::Duration unfinished_work() const = 0;
};

}  // namespace runtime
