#include "operator/runtime/leader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "operator/runtime/test_lease_server.h"

namespace runtime {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLongestWait = absl::Seconds(30);  // of real time

class LeaderTest : public ::testing::Test {
 protected:
  // An elector and the thread that runs it.
  struct Process {
    Process(LeaderTest* test, const std::string& name) : client(&test->server_) {
      LeaderOptions options{.ns = "ns", .name = "op", .identity = name};
      options.clock = &test->clock_;
      options.wall_clock = &test->clock_;
      elector = LeaderElector::Create(&client, options);
    }
    void Start() {
      thread = std::jthread([this](const std::stop_token& stop) {
        result = elector->Run([this] { leads.Notify(); },
                              [this] {
                                could_write_in_stopping = elector->may_write();
                                if (on_stopping) on_stopping();
                                ++stopped;
                              },
                              stop);
        ended.Notify();
      });
    }
    LeaseClient client;
    std::unique_ptr<LeaderElector> elector;
    std::function<void()> on_stopping;
    absl::Notification leads;
    absl::Notification ended;
    absl::Status result;
    bool could_write_in_stopping = false;
    std::atomic<int> stopped = 0;
    std::jthread thread;
  };

  // Lets time pass in small steps, as long as it takes (in real time) until `notification`; returns
  // how much passed.
  absl::Duration AdvanceUntil(const absl::Notification& notification, int sleepers) {
    const absl::Time begin = clock_.Now();
    while (!notification.HasBeenNotified() && clock_.Now() < begin + absl::Hours(1)) {
      clock_.Advance(absl::Milliseconds(100));
      if (!clock_.AwaitSleepers(sleepers)) break;
    }
    EXPECT_TRUE(notification.WaitForNotificationWithTimeout(kLongestWait));
    return clock_.Now() - begin;
  }

  base::FakeClock clock_{absl::FromUnixSeconds(1000000)};
  TestLeaseServer server_;
};

TEST_F(LeaderTest, LeadsAndRenewsAndGivesUpWhenStopped) {
  Process a(this, "a");
  EXPECT_FALSE(a.elector->may_write());
  a.Start();
  ASSERT_TRUE(a.leads.WaitForNotificationWithTimeout(kLongestWait));
  EXPECT_TRUE(a.elector->may_write());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(clock_.AwaitSleepers(1));
    clock_.Advance(absl::Seconds(2));
    ASSERT_TRUE(clock_.AwaitSleepers(1));
    EXPECT_TRUE(a.elector->may_write());
  }
  a.thread.request_stop();
  ASSERT_TRUE(a.ended.WaitForNotificationWithTimeout(kLongestWait));
  EXPECT_TRUE(a.result.ok());
  EXPECT_EQ(a.stopped, 1);
  EXPECT_TRUE(a.could_write_in_stopping);
  EXPECT_FALSE(a.elector->may_write());
  EXPECT_EQ(server_.spec()["holderIdentity"], "");
}

TEST_F(LeaderTest, TheNextOneTakesOverAtOnceFromOneThatStopped) {
  Process a(this, "a");
  a.Start();
  ASSERT_TRUE(a.leads.WaitForNotificationWithTimeout(kLongestWait));
  Process b(this, "b");
  b.Start();
  ASSERT_TRUE(clock_.AwaitSleepers(2));
  EXPECT_EQ(b.elector->holder(), "a");
  EXPECT_FALSE(b.elector->may_write());
  a.thread.request_stop();
  ASSERT_TRUE(a.ended.WaitForNotificationWithTimeout(kLongestWait));
  EXPECT_LE(AdvanceUntil(b.leads, 1), absl::Seconds(1.3));  // its next look
}

TEST_F(LeaderTest, AKilledLeaderIsReplacedJustWhenItsTimeIsOver) {
  Process b(this, "b");
  {
    LeaseClient killed(&server_);
    LeaderOptions options{.ns = "ns", .name = "op", .identity = "a"};
    const auto elector = LeaderElector::Create(&killed, options);
    // It takes the lease, and dies before it can give it up.
    std::jthread thread([&](const std::stop_token& stop) {
      (void)elector->Run(
          [&] { killed.fault = [](auto) { return absl::UnavailableError("dead"); }; }, [] {}, stop);
    });
    while (server_.writes() == 0) std::this_thread::yield();
  }
  b.Start();
  ASSERT_TRUE(clock_.AwaitSleepers(1));
  const absl::Duration took = AdvanceUntil(b.leads, 1);
  EXPECT_GE(took, absl::Seconds(15));
  EXPECT_LE(took, absl::Seconds(15.1));
}

TEST_F(LeaderTest, ALeaderThatCannotRenewStopsItsWorkAfterTheDeadline) {
  Process a(this, "a");
  std::atomic<bool> cut_off = false;
  a.client.fault = [&](LeaseClient::When) {
    return cut_off ? absl::UnavailableError("cut off") : absl::OkStatus();
  };
  a.Start();
  ASSERT_TRUE(a.leads.WaitForNotificationWithTimeout(kLongestWait));
  ASSERT_TRUE(clock_.AwaitSleepers(1));
  cut_off = true;
  while (a.elector->may_write()) {
    ASSERT_TRUE(clock_.AwaitSleepers(1));
    clock_.Advance(absl::Milliseconds(500));
  }
  ASSERT_TRUE(a.ended.WaitForNotificationWithTimeout(kLongestWait));
  EXPECT_EQ(clock_.Now(), absl::FromUnixSeconds(1000010));
  EXPECT_TRUE(absl::IsAborted(a.result));
  EXPECT_THAT(a.result.message(), HasSubstr("cut off"));
  EXPECT_EQ(a.stopped, 1);
  EXPECT_FALSE(a.could_write_in_stopping);
}

TEST_F(LeaderTest, RenewsWhileItsWorkIsBeingStopped) {
  Process a(this, "a");
  absl::Notification go;
  a.on_stopping = [&] { EXPECT_TRUE(go.WaitForNotificationWithTimeout(kLongestWait)); };
  a.Start();
  ASSERT_TRUE(a.leads.WaitForNotificationWithTimeout(kLongestWait));
  ASSERT_TRUE(clock_.AwaitSleepers(1));
  a.thread.request_stop();
  for (int i = 0; i < 20; ++i) {
    const int writes = server_.writes();
    clock_.Advance(absl::Seconds(2));
    const absl::Time deadline = absl::Now() + kLongestWait;
    while (server_.writes() == writes && absl::Now() < deadline) std::this_thread::yield();
    ASSERT_TRUE(clock_.AwaitSleepers(1));
    ASSERT_TRUE(a.elector->may_write());
  }
  go.Notify();
  ASSERT_TRUE(a.ended.WaitForNotificationWithTimeout(kLongestWait));
  EXPECT_TRUE(a.result.ok());
  EXPECT_EQ(server_.spec()["holderIdentity"], "");
}

TEST_F(LeaderTest, StopEndsTheWaitForALeaseWithoutTouchingIt) {
  Process a(this, "a");
  a.Start();
  ASSERT_TRUE(a.leads.WaitForNotificationWithTimeout(kLongestWait));
  Process b(this, "b");
  b.Start();
  ASSERT_TRUE(clock_.AwaitSleepers(2));
  b.thread.request_stop();
  ASSERT_TRUE(b.ended.WaitForNotificationWithTimeout(kLongestWait));
  EXPECT_TRUE(b.result.ok());
  EXPECT_EQ(b.stopped, 0);
  EXPECT_EQ(server_.spec()["holderIdentity"], "a");
}

TEST_F(LeaderTest, MayLeadAgainAfterALoss) {
  Process a(this, "a");
  a.Start();
  ASSERT_TRUE(a.leads.WaitForNotificationWithTimeout(kLongestWait));
  ASSERT_TRUE(clock_.AwaitSleepers(1));
  kube::Json taken = *server_.Get();
  taken["spec"]["holderIdentity"] = "c";
  server_.Edit(taken);
  clock_.Advance(absl::Seconds(2));
  ASSERT_TRUE(a.ended.WaitForNotificationWithTimeout(kLongestWait));
  EXPECT_TRUE(absl::IsAborted(a.result));
  EXPECT_EQ(a.elector->holder(), "c");

  absl::Notification again;
  std::jthread second([&](const std::stop_token& stop) {
    EXPECT_TRUE(a.elector->Run([&] { again.Notify(); }, [] {}, stop).ok());
  });
  AdvanceUntil(again, 1);
  EXPECT_TRUE(a.elector->may_write());
}

}  // namespace
}  // namespace runtime
