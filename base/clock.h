// Time as a parameter: the real clocks, and a fake one for tests.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace base {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() = 0;
  // Waits, releasing `mutex` meanwhile, until `condition` is true or this clock shows `deadline`.
  // Returns whether the condition is true. REQUIRES: `mutex` is held; it guards the condition.
  virtual bool Await(absl::Mutex* mutex, const absl::Condition& condition, absl::Time deadline);

  // The process-wide clock that people read. May be set back or forward at any time.
  static Clock* Real();
  // The process-wide clock for measuring: started with the real time, it then runs evenly, through
  // a suspend of the machine too, whatever happens to the real one.
  static Clock* Steady();
};

// Stands still until told. Who waits by it is woken when it is moved past his deadline.
class FakeClock : public Clock {
 public:
  explicit FakeClock(absl::Time now) : now_(now) {}
  absl::Time Now() override;
  bool Await(absl::Mutex* mutex, const absl::Condition& condition, absl::Time deadline) override;
  void Advance(absl::Duration duration);

  // Blocks until at least `count` threads wait by this clock for something later than now. Returns
  // false if there are fewer after half a minute of real time.
  bool AwaitSleepers(int count);
  // The nearest deadline of those who wait; InfiniteFuture if there is none.
  absl::Time next_deadline();

 private:
  struct Sleeper {
    absl::Mutex* mutex;
    absl::Time deadline;
    int wakers = 0;  // Advance calls that are about to touch `mutex`
  };
  int CountSleepers() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Remove(Sleeper* sleeper);

  // Taken while a sleeper's mutex is held, never the other way round.
  absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_);
  std::vector<Sleeper*> sleepers_ ABSL_GUARDED_BY(mutex_);
};

// Sleeps for `duration`, or until stop is requested: then false.
bool PauseFor(absl::Duration duration, std::stop_token stop);

// RFC 3339 in UTC with whole seconds, as Kubernetes writes metav1.Time: 2026-01-31T12:00:00Z.
std::string TimeText(absl::Time time);

}  // namespace base
