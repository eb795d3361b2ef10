#include "base/clock.h"

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <mutex>

#include "absl/time/clock.h"

namespace base {
namespace {

// Waits go by the system's clock, which may be set back: not longer than this in one piece.
constexpr absl::Duration kLongestPiece = absl::Seconds(5);

class RealClock : public Clock {
 public:
  absl::Time Now() override { return absl::Now(); }
};

absl::Duration SinceBoot() {
  timespec time{};
  (void)::clock_gettime(CLOCK_BOOTTIME, &time);
  return absl::DurationFromTimespec(time);
}

class SteadyClock : public Clock {
 public:
  absl::Time Now() override { return boot_ + SinceBoot(); }

 private:
  const absl::Time boot_ = absl::Now() - SinceBoot();
};

}  // namespace

Clock* Clock::Real() {
  static RealClock* const clock = new RealClock();
  return clock;
}

Clock* Clock::Steady() {
  static SteadyClock* const clock = new SteadyClock();
  return clock;
}

bool Clock::Await(absl::Mutex* mutex, const absl::Condition& condition, absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) {
    mutex->Await(condition);
    return true;
  }
  for (;;) {
    const absl::Duration left = deadline - Now();
    if (mutex->AwaitWithTimeout(condition, std::min(left, kLongestPiece))) return true;
    if (Now() >= deadline) return false;
  }
}

absl::Time FakeClock::Now() {
  absl::MutexLock lock(&mutex_);
  return now_;
}

void FakeClock::Advance(absl::Duration duration) {
  std::vector<Sleeper*> due;
  {
    absl::MutexLock lock(&mutex_);
    now_ += duration;
    for (Sleeper* sleeper : sleepers_) {
      if (sleeper->deadline > now_) continue;
      ++sleeper->wakers;
      due.push_back(sleeper);
    }
  }
  for (Sleeper* sleeper : due) {
    // Letting go of a mutex makes absl look at the conditions of those who wait for it.
    {
      absl::MutexLock wake(sleeper->mutex);
    }
    absl::MutexLock lock(&mutex_);
    --sleeper->wakers;
  }
}

// Unlocks and locks a mutex of the caller's.
bool FakeClock::Await(absl::Mutex* mutex, const absl::Condition& condition,
                      absl::Time deadline) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  Sleeper sleeper{mutex, deadline};
  {
    absl::MutexLock lock(&mutex_);
    sleepers_.push_back(&sleeper);
  }
  const auto is_over = [&] { return condition.Eval() || Now() >= deadline; };
  mutex->Await(absl::Condition(&is_over));
  while (!Remove(&sleeper)) {
    // Advance needs the mutex to finish with this sleeper.
    mutex->Unlock();
    {
      absl::MutexLock lock(&mutex_);
      const auto is_left_alone = [&sleeper] { return sleeper.wakers == 0; };
      mutex_.Await(absl::Condition(&is_left_alone));
    }
    mutex->Lock();
    mutex->Await(absl::Condition(&is_over));
  }
  return condition.Eval();
}

bool FakeClock::Remove(Sleeper* sleeper) {
  absl::MutexLock lock(&mutex_);
  if (sleeper->wakers > 0) return false;
  std::erase(sleepers_, sleeper);
  return true;
}

int FakeClock::CountSleepers() const {
  int count = 0;
  for (const Sleeper* sleeper : sleepers_) count += sleeper->deadline > now_ ? 1 : 0;
  return count;
}

bool FakeClock::AwaitSleepers(int count) {
  absl::MutexLock lock(&mutex_);
  const auto are_enough = [this, count]()
                              ABSL_NO_THREAD_SAFETY_ANALYSIS { return CountSleepers() >= count; };
  return mutex_.AwaitWithTimeout(absl::Condition(&are_enough), absl::Seconds(30));
}

absl::Time FakeClock::next_deadline() {
  absl::MutexLock lock(&mutex_);
  absl::Time next = absl::InfiniteFuture();
  for (const Sleeper* sleeper : sleepers_) next = std::min(next, sleeper->deadline);
  return next;
}

bool PauseFor(absl::Duration duration, std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any changed;  // knows stop tokens
  std::unique_lock lock(mutex);
  changed.wait_for(lock, stop, absl::ToChronoNanoseconds(duration), [] { return false; });
  return !stop.stop_requested();
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

}  // namespace base
