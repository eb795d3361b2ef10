// The runtime over the real client and an API server in memory that fails in every way it can.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "operator/kube/fake_apiserver.h"
#include "operator/runtime/leader.h"
#include "operator/runtime/test_client.h"
#include "operator/runtime/watcher.h"

namespace runtime {
namespace {

using kube::FakeApiServer;
using kube::FakeCall;
using kube::FakeFault;
using kube::Json;

// "namespace/name" → resourceVersion.
using Content = std::map<std::string, std::string>;

std::string KeyOf(const Json& object) {
  const Json& metadata = object["metadata"];
  return absl::StrCat(metadata["namespace"].get<std::string>(), "/",
                      metadata["name"].get<std::string>());
}

// What a cache does: takes everything as it comes, and after a list drops what was not in it.
class Mirror : public WatchSink {
 public:
  void OnObject(Json& object) override {
    absl::MutexLock lock(&mutex_);
    const std::string key = KeyOf(object);
    content_[key] = object["metadata"]["resourceVersion"];
    listed_.insert(key);
  }
  void OnDeleted(const Json& object) override {
    absl::MutexLock lock(&mutex_);
    content_.erase(KeyOf(object));
  }
  void OnListBegin() override {
    absl::MutexLock lock(&mutex_);
    listed_.clear();
  }
  void OnListEnd() override {
    absl::MutexLock lock(&mutex_);
    std::erase_if(content_, [this](const auto& entry) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return listed_.count(entry.first) == 0;
    });
  }
  Content content() const {
    absl::MutexLock lock(&mutex_);
    return content_;
  }

 private:
  mutable absl::Mutex mutex_;
  Content content_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> listed_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe random numbers below `bound`.
class Dice {
 public:
  explicit Dice(int seed) : engine_(seed) {}
  int Roll(int bound) {
    absl::MutexLock lock(&mutex_);
    return static_cast<int>(engine_() % bound);
  }

 private:
  absl::Mutex mutex_;
  std::mt19937 engine_ ABSL_GUARDED_BY(mutex_);
};

// Now and then begins a watch too early, so that old events come again, in their order.
class ReplayingClient : public TestClient {
 public:
  ReplayingClient(kube::Client* client, Dice* dice) : client_(*client), dice_(*dice) {}
  absl::StatusOr<kube::ListPage> List(const Resource& resource, const std::string& ns,
                                      const kube::ListOptions& options,
                                      std::stop_token stop) override {
    return client_.List(resource, ns, options, stop);
  }
  absl::Status Watch(const Resource& resource, const std::string& ns,
                     const kube::WatchOptions& options,
                     const std::function<bool(kube::WatchEvent&)>& on_event,
                     std::stop_token stop) override {
    kube::WatchOptions from_before = options;
    if (dice_.Roll(4) == 0) {
      const int version = std::stoi(options.resource_version);
      from_before.resource_version = std::to_string(std::max(1, version - dice_.Roll(30)));
    }
    return client_.Watch(resource, ns, from_before, on_event, stop);
  }

 private:
  kube::Client& client_;
  Dice& dice_;
};

// `kind`: 0 to kFaults - 1; those that are no fault make the rest.
constexpr int kFaults = 14;
FakeFault MakeFault(int kind, Dice& dice) {
  FakeFault fault;
  switch (kind) {
    case 0:
      return {.code = 410, .reason = "Expired", .message = "too old"};
    case 1:
      return {.code = 429, .reason = "TooManyRequests", .message = "slow down"};
    case 2:
      return {.code = 500, .reason = "InternalError", .message = "etcd"};
    case 3:
      return {.code = 503, .reason = "ServiceUnavailable", .message = "starting"};
    case 4:
      fault.delay = absl::Microseconds(dice.Roll(3000));
      return fault;
    case 5:
      fault.cut_before = true;
      return fault;
    case 6:
      fault.cut_after = true;
      return fault;
    case 7:
    case 8:
      fault.cut_watch_after = dice.Roll(20);
      return fault;
    default:
      return fault;
  }
}

class WatcherSoak : public ::testing::TestWithParam<int> {
 protected:
  static constexpr int kChanges = 1500;

  WatcherSoak() {
    server_.SetFaults([this](const FakeCall&) {
      // Each at least once.
      const int kind = requests_++;
      return MakeFault(kind < kFaults ? kind : dice_.Roll(kFaults), dice_);
    });
    kube::ClientOptions options;
    options.wait = [](absl::Duration, const std::stop_token& stop) {
      return !stop.stop_requested();
    };
    client_ = kube::Client::Create(
        std::shared_ptr<kube::Transport>(std::shared_ptr<void>(), &server_), options);
    replaying_client_ = std::make_unique<ReplayingClient>(client_.get(), &dice_);
  }

  std::unique_ptr<Watcher> Follow(Mirror* mirror, const std::string& ns,
                                  const std::string& selector) {
    auto watcher = Watcher::Create(replaying_client_.get(),
                                   {.resource = kube::kPods,
                                    .ns = ns,
                                    .label_selector = selector,
                                    .first_retry = absl::Microseconds(100),
                                    .max_retry = absl::Milliseconds(2),
                                    .page_size = 5},
                                   mirror);
    watcher->Start();
    return watcher;
  }

  // Ends all watches in one way or another, and waits until somebody has come back.
  void Disturb() {
    const int before = requests_;
    const int way = dice_.Roll(4);
    if (way == 0) server_.Compact();
    if (way == 1) server_.SendBookmarks();
    if (way < 3) {
      server_.CutWatches();
    } else {
      server_.CloseWatches();
    }
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (requests_ == before && absl::Now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      server_.CutWatches();  // those that were about to begin
    }
    EXPECT_GT(requests_, before);
  }

  void ChangeSomething() {
    const std::string ns = dice_.Roll(2) == 0 ? "a" : "b";
    const std::string name = absl::StrCat("pod-", dice_.Roll(40));
    if (dice_.Roll(3) == 0) {
      (void)server_.Remove(kube::kPods, ns, name);
      return;
    }
    (void)server_.Put(kube::kPods, {{"metadata",
                                     {{"namespace", ns},
                                      {"name", name},
                                      {"labels", {{"app", dice_.Roll(2) == 0 ? "x" : "y"}}}}}});
  }

  Content Truth(const std::string& ns, bool only_x) const {
    Content truth;
    for (const Json& object : server_.Objects(kube::kPods, ns)) {
      if (only_x && object["metadata"]["labels"]["app"] != "x") continue;
      truth[KeyOf(object)] = object["metadata"]["resourceVersion"];
    }
    return truth;
  }

  Dice dice_{GetParam()};
  std::atomic<int> requests_ = 0;
  FakeApiServer server_{{.store = {.watch_window = 300}, .piece_bytes = 100}};
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<ReplayingClient> replaying_client_;
};

TEST_P(WatcherSoak, EveryMirrorConvergesToWhatTheServerHas) {
  Mirror all;
  Mirror in_a;
  Mirror with_x;
  {
    const auto follow_all = Follow(&all, "", "");
    const auto follow_a = Follow(&in_a, "a", "");
    const auto follow_x = Follow(&with_x, "", "app=x");
    for (int i = 0; i < kChanges; ++i) {
      ChangeSomething();
      if (i % 10 == 0) Disturb();
    }
    server_.SetFaults({});
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    const auto is_mirrored = [&] {
      return all.content() == Truth("", false) && in_a.content() == Truth("a", false) &&
             with_x.content() == Truth("", true);
    };
    while (!is_mirrored() && absl::Now() < deadline) std::this_thread::yield();
  }
  EXPECT_EQ(all.content(), Truth("", false));
  EXPECT_EQ(in_a.content(), Truth("a", false));
  EXPECT_EQ(with_x.content(), Truth("", true));
  // It was not a fair-weather trip.
  std::set<int> codes;
  for (const FakeCall& call : server_.Calls()) codes.insert(call.code);
  EXPECT_THAT(codes, ::testing::IsSupersetOf({200, 410, 429, 500, 503}));
}

INSTANTIATE_TEST_SUITE_P(Seeds, WatcherSoak, ::testing::Range(1, 9));

TEST(LeaderOverTheClient, TakesRenewsAndGivesUpARealLease) {
  base::FakeClock clock(absl::FromUnixSeconds(1000000));
  FakeApiServer server;
  const auto client =
      kube::Client::Create(std::shared_ptr<kube::Transport>(std::shared_ptr<void>(), &server), {});
  LeaderOptions options{.ns = "ns", .name = "op", .identity = "a"};
  options.clock = &clock;
  const auto elector = LeaderElector::Create(client.get(), options);
  absl::Notification leads;
  std::jthread thread([&](const std::stop_token& stop) {
    EXPECT_TRUE(elector->Run([&] { leads.Notify(); }, [] {}, stop).ok());
  });
  ASSERT_TRUE(leads.WaitForNotificationWithTimeout(absl::Seconds(30)));
  ASSERT_TRUE(clock.AwaitSleepers(1));
  EXPECT_EQ((*server.Find(kube::kLeases, "ns", "op"))["spec"]["holderIdentity"], "a");
  clock.Advance(absl::Seconds(2));
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (server.Count("update", "leases") < 1 && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(elector->may_write());
  thread.request_stop();
  thread.join();
  const Json spec = (*server.Find(kube::kLeases, "ns", "op"))["spec"];
  EXPECT_EQ(spec["holderIdentity"], "");
  EXPECT_EQ(spec["leaseDurationSeconds"], 1);
  EXPECT_EQ(server.Count("update", "leases"), 2);
}

}  // namespace
}  // namespace runtime
