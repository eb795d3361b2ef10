#include "operator/runtime/workqueue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "operator/runtime/backoff.h"

namespace runtime {
namespace {

using ::testing::Optional;

class WorkqueueTest : public ::testing::Test {
 protected:
  WorkqueueOptions Options() {
    WorkqueueOptions options;
    options.clock = &clock_;
    options.seed = 1;
    return options;
  }
  // REQUIRES: a key is due.
  std::string Take() {
    std::optional<std::string> key = queue_->Get({});
    return key ? *key : "";
  }
  void Pass(const std::string& key) {
    EXPECT_EQ(Take(), key);
    queue_->Done(key);
  }

  base::FakeClock clock_{absl::FromUnixSeconds(1000)};
  std::unique_ptr<Workqueue> queue_ = Workqueue::Create(Options());
};

TEST_F(WorkqueueTest, GivesKeysInTheOrderTheyCame) {
  queue_->Add("b");
  queue_->Add("a");
  Pass("b");
  Pass("a");
  EXPECT_EQ(queue_->depth(), 0);
}

TEST_F(WorkqueueTest, HigherPrioritiesGoFirstAndEqualsInOrder) {
  queue_->Add("clean up", Priority::kLow);
  queue_->Add("new 1");
  queue_->Add("new 2");
  queue_->Add("runs 1", Priority::kHigh);
  queue_->Add("runs 2", Priority::kHigh);
  for (const char* key : {"runs 1", "runs 2", "new 1", "new 2", "clean up"}) Pass(key);
}

TEST_F(WorkqueueTest, TheHighestWishOfAKeyCountsUntilItIsTaken) {
  queue_->Add("a");
  queue_->Add("b", Priority::kLow);
  queue_->Add("b", Priority::kHigh);
  queue_->Add("b", Priority::kNormal);
  EXPECT_EQ(queue_->depth(), 2);
  EXPECT_EQ(Take(), "b");
  queue_->Add("b", Priority::kHigh);  // while it runs
  queue_->Done("b");
  Pass("b");
  Pass("a");
  queue_->AddAfter("b", absl::Seconds(1), Priority::kHigh);
  queue_->AddAfter("b", absl::Seconds(2), Priority::kLow);
  queue_->Add("a");
  clock_.Advance(absl::Seconds(1));
  Pass("b");
  Pass("a");
  queue_->Add("b", Priority::kLow);  // the wishes of before are forgotten
  queue_->Add("a");
  Pass("a");
  Pass("b");
  EXPECT_EQ(queue_->depth(), 0);
}

TEST_F(WorkqueueTest, ALowerPriorityIsNotStarved) {
  queue_->Add("new");
  queue_->Add("clean up", Priority::kLow);
  std::vector<int> turns;
  for (int i = 0; i < 30; ++i) {
    queue_->Add("runs", Priority::kHigh);
    const std::string key = Take();
    if (key != "runs") turns.push_back(i);
    queue_->Done(key);
    if (key == "new") queue_->Add(key);
  }
  EXPECT_THAT(turns, ::testing::ElementsAre(8, 9, 18, 27));  // clean up, new, new, new
}

TEST_F(WorkqueueTest, MergesAKeyThatIsQueuedAlready) {
  queue_->Add("a");
  queue_->Add("a");
  EXPECT_EQ(queue_->depth(), 1);
  Pass("a");
  EXPECT_EQ(queue_->depth(), 0);
}

TEST_F(WorkqueueTest, AKeyAddedWhileItRunsComesBackOnceItIsDone) {
  queue_->Add("a");
  EXPECT_EQ(Take(), "a");
  queue_->Add("a");
  queue_->Add("a");
  EXPECT_EQ(queue_->depth(), 0);
  queue_->Done("a");
  EXPECT_EQ(queue_->depth(), 1);
  Pass("a");
  EXPECT_EQ(queue_->depth(), 0);
}

TEST_F(WorkqueueTest, ADelayedKeyIsDueAfterItsDelay) {
  queue_->AddAfter("a", absl::Seconds(5));
  EXPECT_EQ(queue_->depth(), 0);
  EXPECT_EQ(queue_->delayed(), 1);
  clock_.Advance(absl::Seconds(5));
  EXPECT_EQ(queue_->depth(), 1);
  EXPECT_EQ(queue_->delayed(), 0);
  Pass("a");
}

TEST_F(WorkqueueTest, TheEarlierWishWins) {
  queue_->AddAfter("a", absl::Seconds(5));
  queue_->AddAfter("a", absl::Seconds(9));
  clock_.Advance(absl::Seconds(5));
  Pass("a");
  clock_.Advance(absl::Seconds(9));
  EXPECT_EQ(queue_->depth(), 0);

  queue_->AddAfter("a", absl::Seconds(9));
  queue_->AddAfter("a", absl::Seconds(5));
  clock_.Advance(absl::Seconds(5));
  Pass("a");
  clock_.Advance(absl::Seconds(9));
  EXPECT_EQ(queue_->depth(), 0);
}

TEST_F(WorkqueueTest, AddTakesThePlaceOfADelay) {
  queue_->AddAfter("a", absl::Seconds(5));
  queue_->Add("a");
  Pass("a");
  clock_.Advance(absl::Seconds(5));
  EXPECT_EQ(queue_->depth(), 0);
}

TEST_F(WorkqueueTest, ADelayThatEndsWhileTheKeyRunsBringsItBack) {
  queue_->Add("a");
  EXPECT_EQ(Take(), "a");
  queue_->AddAfter("a", absl::Seconds(1));
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(queue_->depth(), 0);  // it cannot be taken yet
  queue_->Add("b");
  Pass("b");
  queue_->Done("a");
  EXPECT_EQ(queue_->depth(), 1);
  Pass("a");
}

TEST_F(WorkqueueTest, AWishMadeWhileTheKeyRunsOutlivesThePass) {
  queue_->Add("a");
  EXPECT_EQ(Take(), "a");
  queue_->AddAfter("a", absl::Seconds(3));
  queue_->Done("a");
  EXPECT_EQ(queue_->depth(), 0);
  clock_.Advance(absl::Seconds(3));
  Pass("a");
}

TEST_F(WorkqueueTest, AWaitingWorkerIsWokenByTheTimer) {
  std::jthread worker([this](const std::stop_token& stop) {
    EXPECT_THAT(queue_->Get(stop), Optional<std::string>("a"));
  });
  ASSERT_TRUE(clock_.AwaitSleepers(1));
  queue_->AddAfter("a", absl::Seconds(60));
  while (clock_.next_deadline() > clock_.Now() + absl::Seconds(60)) std::this_thread::yield();
  clock_.Advance(absl::Seconds(60));
  worker.join();
}

TEST_F(WorkqueueTest, FailuresBackOffTwiceAsLongEachTimeUntilForgotten) {
  const auto wait = [this] {
    queue_->AddAfterFailure("a");
    absl::Duration waited;
    while (queue_->depth() == 0) {
      clock_.Advance(absl::Milliseconds(1));
      waited += absl::Milliseconds(1);
    }
    Pass("a");
    return absl::ToDoubleMilliseconds(waited);
  };
  for (const double even : {50.0, 100.0, 200.0, 400.0}) EXPECT_NEAR(wait(), even, even * 0.2 + 1.0);
  EXPECT_EQ(queue_->failures("a"), 4);
  queue_->Forget("a");
  EXPECT_EQ(queue_->failures("a"), 0);
  EXPECT_NEAR(wait(), 50.0, 11.0);
}

TEST_F(WorkqueueTest, AFailureWaitsAtLeastAsLongAsTheServerAsked) {
  queue_->AddAfterFailure("a", absl::Seconds(7));
  clock_.Advance(absl::Seconds(7) - absl::Milliseconds(1));
  EXPECT_EQ(queue_->depth(), 0);
  clock_.Advance(absl::Milliseconds(1));
  Pass("a");
}

TEST_F(WorkqueueTest, KnowsHowLongKeysWaitAndRun) {
  queue_->Add("a");
  queue_->AddAfter("b", absl::Seconds(1));
  clock_.Advance(absl::Seconds(4));
  EXPECT_EQ(queue_->oldest_wait(), absl::Seconds(4));
  EXPECT_EQ(Take(), "a");
  EXPECT_EQ(queue_->oldest_wait(), absl::Seconds(3));
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(Take(), "b");
  EXPECT_EQ(queue_->oldest_wait(), absl::ZeroDuration());
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(queue_->running(), 2);
  EXPECT_EQ(queue_->longest_running(), absl::Seconds(3));
  EXPECT_EQ(queue_->unfinished_work(), absl::Seconds(4));
}

TEST_F(WorkqueueTest, TellsItsObserverOfEveryStep) {
  WorkqueueOptions options = Options();
  int adds = 0;
  int retries = 0;
  absl::Duration waited;
  absl::Duration worked;
  options.observer = {[&] { ++adds; }, [&] { ++retries; },
                      [&](absl::Duration wait) { waited += wait; },
                      [&](absl::Duration work) { worked += work; }};
  queue_ = Workqueue::Create(options);
  queue_->Add("a");
  queue_->Add("a");
  queue_->AddAfter("b", absl::Seconds(1));
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(Take(), "a");
  EXPECT_EQ(Take(), "b");
  clock_.Advance(absl::Seconds(5));
  queue_->Done("a");
  EXPECT_EQ(adds, 2);
  EXPECT_EQ(retries, 1);
  EXPECT_EQ(waited, absl::Seconds(3));
  EXPECT_EQ(worked, absl::Seconds(5));
}

TEST_F(WorkqueueTest, StopAndShutDownEndTheWait) {
  std::jthread stopped(
      [this](const std::stop_token& stop) { EXPECT_EQ(queue_->Get(stop), std::nullopt); });
  std::thread shut_down([this] { EXPECT_EQ(queue_->Get({}), std::nullopt); });
  ASSERT_TRUE(clock_.AwaitSleepers(2));
  stopped.request_stop();
  stopped.join();
  queue_->ShutDown();
  shut_down.join();
  queue_->Add("a");
  EXPECT_EQ(queue_->Get({}), std::nullopt);
}

TEST(Backoff, DoublesUpToTheCeilingWithAFifthOfJitter) {
  const auto delay = [](int failures, double random) {
    return BackoffDelay(absl::Seconds(1), absl::Seconds(10), failures, random);
  };
  EXPECT_EQ(delay(0, 0.5), absl::ZeroDuration());
  EXPECT_EQ(delay(1, 0.5), absl::Seconds(1));
  EXPECT_EQ(delay(3, 0.5), absl::Seconds(4));
  EXPECT_EQ(delay(100000, 0.5), absl::Seconds(10));
  EXPECT_EQ(delay(1, 0.0), absl::Milliseconds(800));
  EXPECT_LE(delay(5, 0.999), absl::Seconds(12));
}

// Many producers and workers by the real clock: no key is ever with two workers, none is lost.
TEST(WorkqueueStress, NoKeyIsWithTwoWorkersAndNoneIsLost) {
  constexpr int kKeys = 20;
  constexpr int kWorkers = 6;
  constexpr int kProducers = 3;
  const auto queue = Workqueue::Create();
  std::vector<std::atomic<int>> holders(kKeys);
  std::vector<std::atomic<int64_t>> wanted(kKeys);
  std::vector<std::atomic<int64_t>> seen(kKeys);
  std::vector<std::jthread> workers;
  for (int i = 0; i < kWorkers; ++i) {
    workers.emplace_back([&, i](const std::stop_token& stop) {
      while (const std::optional<std::string> key = queue->Get(stop)) {
        const int k = std::stoi(*key);
        EXPECT_EQ(holders[k].fetch_add(1), 0);
        seen[k] = wanted[k].load();
        if (i % 3 == 0) queue->AddAfter(*key, absl::Microseconds(50));
        if (i % 3 == 1) queue->Forget(*key);
        holders[k].fetch_sub(1);
        queue->Done(*key);
      }
    });
  }
  {
    std::vector<std::jthread> producers;
    producers.reserve(kProducers);
    for (int i = 0; i < kProducers; ++i) {
      producers.emplace_back([&, i] {
        std::mt19937 random(i);
        for (int n = 0; n < 3000; ++n) {
          const int k = static_cast<int>(random() % kKeys);
          ++wanted[k];
          const std::string key = std::to_string(k);
          if (n % 3 == 0) queue->AddAfter(key, absl::Microseconds(random() % 300));
          if (n % 3 == 1) queue->Add(key);
          if (n % 3 == 2) queue->AddAfterFailure(key);
          (void)queue->depth();
          (void)queue->oldest_wait();
          (void)queue->unfinished_work();
        }
        for (int k = 0; k < kKeys; ++k) queue->Add(std::to_string(k));
      });
    }
  }
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  for (int k = 0; k < kKeys; ++k) {
    while (seen[k] != wanted[k] && absl::Now() < deadline) std::this_thread::yield();
    EXPECT_EQ(seen[k], wanted[k]) << k;
  }
}

}  // namespace
}  // namespace runtime
