#include "operator/runtime/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace runtime {
namespace {

constexpr absl::Duration kLongest = absl::Seconds(30);

// One worker; `Reconcile` gives what the test says.
class ControllerTest : public ::testing::Test {
 protected:
  void Start(std::function<Outcome(const std::string&, std::stop_token)> reconcile,
             int threads = 1) {
    ControllerOptions options;
    options.threads = threads;
    options.clock = &clock_;
    options.reconcile = std::move(reconcile);
    options.on_begin = [this] { ++begun_; };
    options.on_pass = [this](const Outcome& outcome, absl::Duration) {
      absl::MutexLock lock(&mutex_);
      outcomes_.push_back(outcome);
    };
    controller_ = Controller::Create(queue_.get(), std::move(options));
    controller_->Start();
  }
  Outcome AwaitPass(size_t count = 1) {
    absl::MutexLock lock(&mutex_);
    const auto is_there = [&]()
                              ABSL_NO_THREAD_SAFETY_ANALYSIS { return outcomes_.size() >= count; };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&is_there), kLongest)) {
      ADD_FAILURE() << "no pass";
      return {};
    }
    return outcomes_[count - 1];
  }

  base::FakeClock clock_{absl::FromUnixSeconds(1000)};
  std::unique_ptr<Workqueue> queue_ = Workqueue::Create({.clock = &clock_, .seed = 1});
  std::atomic<int> begun_ = 0;
  absl::Mutex mutex_;
  std::vector<Outcome> outcomes_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Controller> controller_;
};

TEST_F(ControllerTest, DoneForgetsTheFailures) {
  queue_->AddAfterFailure("a", absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  Start([](const std::string&, const std::stop_token&) { return Outcome::Done(); });
  EXPECT_EQ(AwaitPass().kind, Outcome::Kind::kDone);
  EXPECT_EQ(queue_->failures("a"), 0);
  EXPECT_EQ(queue_->depth() + queue_->delayed(), 0);
  EXPECT_EQ(begun_, 1);
}

TEST_F(ControllerTest, RequeueAfterComesBackAfterItsTime) {
  Start([](const std::string&, const std::stop_token&) {
    return Outcome::RequeueAfter(absl::Seconds(9));
  });
  queue_->Add("a");
  AwaitPass(1);
  EXPECT_EQ(queue_->delayed(), 1);
  clock_.Advance(absl::Seconds(9));
  AwaitPass(2);
}

TEST_F(ControllerTest, RetryBacksOffAndCountsFailures) {
  Start([](const std::string&, const std::stop_token&) {
    return Outcome::Retry(absl::UnavailableError("no server"), absl::Seconds(3));
  });
  queue_->Add("a");
  AwaitPass(1);
  EXPECT_EQ(queue_->failures("a"), 1);
  EXPECT_EQ(queue_->delayed(), 1);
  clock_.Advance(absl::Seconds(3));
  AwaitPass(2);
  EXPECT_EQ(queue_->failures("a"), 2);
}

TEST_F(ControllerTest, TerminalDoesNotComeBackByItself) {
  Start([](const std::string&, const std::stop_token&) {
    return Outcome::Terminal(absl::InvalidArgumentError("spec"));
  });
  queue_->Add("a");
  EXPECT_EQ(AwaitPass().kind, Outcome::Kind::kTerminal);
  EXPECT_EQ(queue_->failures("a"), 0);
  EXPECT_EQ(queue_->depth() + queue_->delayed(), 0);
  queue_->Add("a");
  AwaitPass(2);
}

TEST_F(ControllerTest, AnExceptionIsARetryAndTheWorkerLives) {
  Start([](const std::string& key, const std::stop_token&) -> Outcome {
    if (key == "bad") throw std::runtime_error("oops");
    return Outcome::Done();
  });
  queue_->Add("bad");
  const Outcome outcome = AwaitPass(1);
  EXPECT_EQ(outcome.kind, Outcome::Kind::kRetry);
  EXPECT_THAT(outcome.error.message(), ::testing::HasSubstr("oops"));
  queue_->Add("good");
  EXPECT_EQ(AwaitPass(2).kind, Outcome::Kind::kDone);
}

TEST_F(ControllerTest, StopWaitsForThePassUnderWayAndTakesNoMore) {
  absl::Notification inside;
  absl::Notification go;
  Start([&](const std::string&, const std::stop_token&) {
    inside.Notify();
    go.WaitForNotification();
    return Outcome::Done();
  });
  queue_->Add("a");
  queue_->Add("b");
  ASSERT_TRUE(inside.WaitForNotificationWithTimeout(kLongest));
  std::thread stopper([this] { EXPECT_TRUE(controller_->Stop(absl::Minutes(1))); });
  ASSERT_TRUE(clock_.AwaitSleepers(1));
  go.Notify();
  stopper.join();
  EXPECT_EQ(begun_, 1);
  EXPECT_EQ(queue_->depth(), 1);
}

TEST_F(ControllerTest, WhenTheGraceIsOverPassesAreAskedToStop) {
  absl::Notification inside;
  Start([&](const std::string&, const std::stop_token& stop) {
    absl::Notification stopped;
    const std::stop_callback notify(stop, [&] { stopped.Notify(); });
    inside.Notify();
    EXPECT_TRUE(stopped.WaitForNotificationWithTimeout(kLongest));
    return Outcome::Retry(absl::CancelledError("stopped"));
  });
  queue_->Add("a");
  ASSERT_TRUE(inside.WaitForNotificationWithTimeout(kLongest));
  std::thread stopper([this] { EXPECT_FALSE(controller_->Stop(absl::Minutes(1))); });
  while (clock_.next_deadline() == absl::InfiniteFuture()) std::this_thread::yield();
  clock_.Advance(absl::Minutes(1));
  stopper.join();
  controller_.reset();
  EXPECT_EQ(begun_, 1);
}

TEST_F(ControllerTest, AControllerThatNeverStartedStops) {
  controller_ = Controller::Create(queue_.get(), {});
  EXPECT_TRUE(controller_->Stop(absl::ZeroDuration()));
}

// By the real clock, with every outcome: each key is reconciled by one worker at a time, and all
// are settled in the end.
TEST(ControllerStress, EveryKeySettles) {
  constexpr int kKeys = 50;
  const auto queue = Workqueue::Create({.first_backoff = absl::Microseconds(100)});
  std::vector<std::atomic<int>> holders(kKeys);
  std::vector<std::atomic<int>> passes(kKeys);
  std::atomic<int> settled = 0;
  ControllerOptions options;
  options.threads = 6;
  options.reconcile = [&](const std::string& key, const std::stop_token&) -> Outcome {
    const int k = std::stoi(key);
    EXPECT_EQ(holders[k].fetch_add(1), 0);
    const int pass = ++passes[k];
    holders[k].fetch_sub(1);
    if (pass % 4 == 1) return Outcome::Retry(absl::AbortedError("conflict"));
    if (pass % 4 == 2) return Outcome::RequeueAfter(absl::Microseconds(10));
    if (pass % 4 == 3 && pass < 20) throw std::runtime_error("defect");
    if (pass < 20) return Outcome::RequeueAfter(absl::ZeroDuration());
    if (pass == 20) ++settled;
    return Outcome::Done();
  };
  const auto controller = Controller::Create(queue.get(), options);
  controller->Start();
  for (int k = 0; k < kKeys; ++k) queue->Add(std::to_string(k));
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (settled < kKeys && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_EQ(settled, kKeys);
  EXPECT_TRUE(controller->Stop(absl::Seconds(30)));
}

}  // namespace
}  // namespace runtime
