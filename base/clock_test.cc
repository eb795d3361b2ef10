#include "base/clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace base {
namespace {

TEST(Clock, FakeTimeMovesOnlyWhenTold) {
  FakeClock clock(absl::UnixEpoch());
  EXPECT_EQ(clock.Now(), absl::UnixEpoch());
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(3));
}

TEST(Clock, RealTimeDoesNotGoBack) {
  const absl::Time before = Clock::Real()->Now();
  EXPECT_GE(Clock::Real()->Now(), before);
}

TEST(Clock, SteadyTimeStartsWithTheRealOneAndDoesNotGoBack) {
  const absl::Time before = Clock::Steady()->Now();
  EXPECT_GE(Clock::Steady()->Now(), before);
  EXPECT_LT(absl::AbsDuration(before - Clock::Real()->Now()), absl::Hours(1));
}

TEST(Clock, AwaitSeesTheConditionOrTheDeadline) {
  absl::Mutex mutex;
  bool yes = true;
  bool no = false;
  absl::MutexLock lock(&mutex);
  Clock* const clock = Clock::Steady();
  EXPECT_TRUE(clock->Await(&mutex, absl::Condition(&yes), absl::InfiniteFuture()));
  EXPECT_TRUE(clock->Await(&mutex, absl::Condition(&yes), clock->Now() - absl::Seconds(1)));
  EXPECT_FALSE(clock->Await(&mutex, absl::Condition(&no), clock->Now() + absl::Milliseconds(1)));
}

TEST(Clock, FakeTimeWakesThoseWhoseDeadlinePassed) {
  FakeClock clock(absl::UnixEpoch());
  absl::Mutex mutex;
  bool never = false;
  std::thread sleeper([&] {
    absl::MutexLock lock(&mutex);
    EXPECT_FALSE(clock.Await(&mutex, absl::Condition(&never), absl::FromUnixSeconds(10)));
    EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(12));
  });
  ASSERT_TRUE(clock.AwaitSleepers(1));
  EXPECT_EQ(clock.next_deadline(), absl::FromUnixSeconds(10));
  clock.Advance(absl::Seconds(9));
  ASSERT_TRUE(clock.AwaitSleepers(1));
  clock.Advance(absl::Seconds(3));
  sleeper.join();
  EXPECT_EQ(clock.next_deadline(), absl::InfiniteFuture());
}

TEST(Clock, FakeTimeLetsTheConditionEndTheWait) {
  FakeClock clock(absl::UnixEpoch());
  absl::Mutex mutex;
  bool go = false;
  std::thread sleeper([&] {
    absl::MutexLock lock(&mutex);
    EXPECT_TRUE(clock.Await(&mutex, absl::Condition(&go), absl::InfiniteFuture()));
  });
  ASSERT_TRUE(clock.AwaitSleepers(1));
  {
    absl::MutexLock lock(&mutex);
    go = true;
  }
  sleeper.join();
}

// Mutexes that die right after the wait, while the clock is being moved.
TEST(Clock, FakeTimeMovesWhileSleepersComeAndGo) {
  FakeClock clock(absl::UnixEpoch());
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&clock] {
      for (int round = 0; round < 200; ++round) {
        absl::Mutex mutex;
        bool never = false;
        absl::MutexLock lock(&mutex);
        (void)clock.Await(&mutex, absl::Condition(&never), clock.Now() + absl::Seconds(1));
      }
    });
  }
  std::jthread mover([&clock](const std::stop_token& stop) {
    while (!stop.stop_requested()) clock.Advance(absl::Milliseconds(500));
  });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace base
