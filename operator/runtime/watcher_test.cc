#include "operator/runtime/watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <stdexcept>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "operator/runtime/list_watch.h"
#include "operator/runtime/log_throttle.h"
#include "operator/runtime/test_client.h"

namespace runtime {
namespace {

using kube::Json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json Pod(const std::string& name, int version) {
  return {{"metadata", {{"name", name}, {"resourceVersion", std::to_string(version)}}}};
}

kube::WatchEvent Event(const std::string& type, const std::string& name, int version) {
  return {type, Pod(name, version)};
}

kube::ListPage Page(std::vector<Json> items, const std::string& continue_token = "",
                    const std::string& version = "10") {
  return {Json(std::move(items)), version, continue_token};
}

// Plays answers in their order and notes what was asked.
class ScriptedClient : public TestClient {
 public:
  struct WatchAnswer {
    std::vector<kube::WatchEvent> events;
    absl::Status status;
    absl::Duration lasts = absl::Minutes(5);
  };
  explicit ScriptedClient(base::FakeClock* clock) : clock_(*clock) {}

  absl::StatusOr<kube::ListPage> List(const Resource&, const std::string&,
                                      const kube::ListOptions& options, std::stop_token) override {
    asked.push_back(absl::StrCat("list ", options.continue_token));
    if (pages.empty()) return absl::UnavailableError("no more pages in the script");
    absl::StatusOr<kube::ListPage> page = std::move(pages.front());
    pages.pop_front();
    return page;
  }

  absl::Status Watch(const Resource&, const std::string&, const kube::WatchOptions& options,
                     const std::function<bool(kube::WatchEvent&)>& on_event,
                     std::stop_token) override {
    asked.push_back(absl::StrCat("watch ", options.resource_version));
    if (watches.empty()) return absl::UnavailableError("no more watches in the script");
    WatchAnswer answer = std::move(watches.front());
    watches.pop_front();
    for (kube::WatchEvent& event : answer.events) on_event(event);
    clock_.Advance(answer.lasts);
    return answer.status;
  }

  std::deque<absl::StatusOr<kube::ListPage>> pages;
  std::deque<WatchAnswer> watches;
  std::vector<std::string> asked;

 private:
  base::FakeClock& clock_;
};

// Writes down what it is given.
class Recorder : public WatchSink {
 public:
  void OnObject(Json& object) override {
    const std::string name = object["metadata"]["name"];
    if (name == "indigestible") throw std::runtime_error("cannot take this");
    Note("+" + name);
    object.clear();
  }
  void OnDeleted(const Json& object) override {
    Note("-" + object["metadata"]["name"].get<std::string>());
  }
  void OnListBegin() override { Note("["); }
  void OnListEnd() override { Note("]"); }

  std::vector<std::string> notes() const {
    absl::MutexLock lock(&mutex_);
    return notes_;
  }

 private:
  void Note(const std::string& note) {
    absl::MutexLock lock(&mutex_);
    notes_.push_back(note);
  }
  mutable absl::Mutex mutex_;
  std::vector<std::string> notes_ ABSL_GUARDED_BY(mutex_);
};

class ListWatchTest : public ::testing::Test {
 protected:
  WatcherOptions Options() {
    WatcherOptions options;
    options.resource = kube::kPods;
    options.clock = &clock_;
    options.seed = 1;
    return options;
  }
  ListWatch::Pause Step() { return cycle_.Step({}); }
  void Steps(int count) {
    for (int i = 0; i < count; ++i) (void)Step();
  }

  base::FakeClock clock_{absl::FromUnixSeconds(1000)};
  ScriptedClient client_{&clock_};
  Recorder sink_;
  ListWatch cycle_{&client_, Options(), &sink_};
};

constexpr absl::Duration kNone = absl::ZeroDuration();

TEST_F(ListWatchTest, ListsPageByPageAndWatchesFromThere) {
  client_.pages = {Page({Pod("a", 1), Pod("b", 2)}, "next"), Page({Pod("c", 3)}, "", "7")};
  client_.watches = {{{Event("ADDED", "d", 8), Event("DELETED", "a", 9)}, absl::OkStatus()}};
  EXPECT_EQ(Step().time, kNone);
  EXPECT_FALSE(cycle_.synced());
  EXPECT_EQ(cycle_.state(), ListWatch::State::kListing);
  EXPECT_EQ(Step().time, kNone);
  EXPECT_TRUE(cycle_.synced());
  EXPECT_EQ(cycle_.state(), ListWatch::State::kWatching);
  Step();
  EXPECT_THAT(client_.asked, ElementsAre("list ", "list next", "watch 7"));
  EXPECT_THAT(sink_.notes(), ElementsAre("[", "+a", "+b", "+c", "]", "+d", "-a"));
}

TEST_F(ListWatchTest, AWatchThatEndsInGoodOrderGoesOnAtOnceFromTheNewestVersion) {
  client_.pages = {Page({})};
  client_.watches = {{{Event("ADDED", "a", 11)}, absl::OkStatus()},
                     {{}, absl::OkStatus()},
                     {{Event("BOOKMARK", "", 30)}, absl::OkStatus()},
                     {}};
  Step();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Step().time, kNone);
  EXPECT_THAT(client_.asked, ElementsAre("list ", "watch 10", "watch 11", "watch 11", "watch 30"));
  EXPECT_THAT(sink_.notes(), ElementsAre("[", "]", "+a"));
  EXPECT_EQ(cycle_.restarts(), 4);
}

TEST_F(ListWatchTest, RelistsAtOnceAfter410AndBacksOffIfThatRepeats) {
  client_.pages = {Page({}), Page({}), Page({}), Page({})};
  const absl::Status gone = absl::OutOfRangeError("too old resource version");
  client_.watches = {{{}, gone}, {{}, gone}, {{Event("ADDED", "a", 11)}, gone}};
  EXPECT_EQ(Step().time, kNone);
  EXPECT_EQ(Step().time, kNone);  // 410
  EXPECT_EQ(Step().time, kNone);
  EXPECT_GT(Step().time, kNone);  // 410 again, without an event between
  EXPECT_EQ(Step().time, kNone);
  EXPECT_EQ(Step().time, kNone);  // 410 after an event
  EXPECT_EQ(Step().time, kNone);
  EXPECT_EQ(cycle_.lists(), 4);
  EXPECT_EQ(cycle_.restarts(), 3);
}

TEST_F(ListWatchTest, A410AmidThePagesStartsOver) {
  client_.pages = {Page({Pod("a", 1)}, "next"), absl::OutOfRangeError("continue token expired"),
                   Page({Pod("b", 2)})};
  Steps(3);
  EXPECT_THAT(client_.asked, ElementsAre("list ", "list next", "list "));
  EXPECT_THAT(sink_.notes(), ElementsAre("[", "+a", "[", "+b", "]"));
}

TEST_F(ListWatchTest, AFailedPageIsAskedForAgainAfterABackOff) {
  client_.pages = {Page({Pod("a", 1)}, "next"), absl::UnavailableError("refused"),
                   absl::UnavailableError("refused"), Page({Pod("b", 2)})};
  Step();
  const ListWatch::Pause first = Step();
  EXPECT_EQ(first.why, "refused");
  EXPECT_GE(first.time, absl::Milliseconds(160));
  EXPECT_LE(first.time, absl::Milliseconds(240));
  EXPECT_GE(Step().time, absl::Milliseconds(320));
  Step();
  EXPECT_THAT(client_.asked, ElementsAre("list ", "list next", "list next", "list next"));
  EXPECT_THAT(sink_.notes(), ElementsAre("[", "+a", "+b", "]"));
}

TEST_F(ListWatchTest, APageThatKeepsFailingStartsTheListOver) {
  client_.pages = {Page({Pod("a", 1)}, "next")};
  for (int i = 0; i < 5; ++i) client_.pages.emplace_back(absl::InternalError("broken token"));
  client_.pages.emplace_back(Page({Pod("b", 2)}));
  Steps(7);
  EXPECT_EQ(client_.asked.back(), "list ");
  EXPECT_TRUE(cycle_.synced());
}

TEST_F(ListWatchTest, AListThatCannotBeginLeavesTheSinkAlone) {
  Steps(3);
  EXPECT_THAT(sink_.notes(), IsEmpty());
}

TEST_F(ListWatchTest, WaitsLongerEachTimeUntilTheCeiling) {
  absl::Duration last;
  for (int i = 0; i < 6; ++i) {
    const absl::Duration pause = Step().time;
    EXPECT_GT(pause, last);
    last = pause;
  }
  Steps(10);
  EXPECT_LE(Step().time, absl::Seconds(36));
  EXPECT_GE(Step().time, absl::Seconds(24));
}

TEST_F(ListWatchTest, ABrokenWatchGoesOnFromTheNewestVersionAfterAShortPause) {
  client_.pages = {Page({})};
  client_.watches = {{{Event("ADDED", "a", 11)}, absl::UnavailableError("connection reset")},
                     {{Event("ADDED", "b", 12)}, absl::UnavailableError("connection reset")}};
  Step();
  for (int i = 0; i < 2; ++i) {
    const absl::Duration pause = Step().time;
    EXPECT_GT(pause, kNone);
    EXPECT_LE(pause, absl::Milliseconds(240));  // events between: it does not grow
  }
  Step();
  EXPECT_EQ(client_.asked.back(), "watch 12");
}

TEST_F(ListWatchTest, AWatchThatKeepsFailingListsAgain) {
  client_.pages = {Page({}), Page({})};
  for (int i = 0; i < 5; ++i) client_.watches.push_back({{}, absl::UnavailableError("no"), kNone});
  Steps(7);
  EXPECT_EQ(client_.asked.back(), "list ");
  EXPECT_EQ(cycle_.lists(), 2);
  // A list that works does not hide that watching does not.
  EXPECT_GT(Step().time, absl::Seconds(5));
}

TEST_F(ListWatchTest, AServerThatEndsWatchesAtOnceIsNotAskedInALoop) {
  client_.pages = {Page({})};
  client_.watches = {{{}, absl::OkStatus(), kNone}, {{}, absl::OkStatus(), kNone}};
  Step();
  EXPECT_GT(Step().time, absl::Milliseconds(150));
  EXPECT_GT(Step().time, absl::Milliseconds(300));
}

TEST_F(ListWatchTest, AnObjectThatTheSinkCannotTakeDoesNotKeepTheOthersFromIt) {
  client_.pages = {Page({Pod("indigestible", 1), Pod("b", 2)})};
  client_.watches = {
      {{Event("ADDED", "indigestible", 11), Event("ADDED", "c", 12)}, absl::OkStatus()}};
  Steps(2);
  EXPECT_THAT(sink_.notes(), ElementsAre("[", "+b", "]", "+c"));
}

TEST_F(ListWatchTest, OddObjectsDoNoHarm) {
  client_.pages = {Page({})};
  client_.watches = {{{{"BOOKMARK", Json()},
                       {"BOOKMARK", {{"metadata", {{"resourceVersion", 5}}}}},
                       {"BOOKMARK", {{"metadata", "x"}}},
                       {"NEWTYPE", Pod("a", 11)}},
                      absl::OkStatus()}};
  Steps(3);
  EXPECT_EQ(client_.asked.back(), "watch 11");
  EXPECT_THAT(sink_.notes(), ElementsAre("[", "]"));
}

TEST(Advice, NamesTheMissingRule) {
  WatcherOptions options;
  options.resource = {"example.com/v1", "things"};
  const absl::Status forbidden = absl::PermissionDeniedError("forbidden");
  EXPECT_THAT(AdviceFor(forbidden, options),
              AllOf(HasSubstr("ClusterRole"), HasSubstr("apiGroups: [\"example.com\"]"),
                    HasSubstr("resources: [\"things\"]"), HasSubstr("[\"list\", \"watch\"]")));
  options.ns = "team";
  EXPECT_THAT(AdviceFor(forbidden, options), HasSubstr("Role in namespace team"));
  EXPECT_THAT(AdviceFor(absl::NotFoundError(""), options), HasSubstr("things.example.com"));
  EXPECT_THAT(AdviceFor(absl::UnauthenticatedError(""), options), HasSubstr("kubeconfig"));
  EXPECT_EQ(AdviceFor(absl::UnavailableError(""), options), "");
}

TEST(LogThrottle, SaysYesOnceAMinuteForEachCause) {
  base::FakeClock clock(absl::FromUnixSeconds(1000));
  LogThrottle throttle(&clock);
  EXPECT_TRUE(throttle.Allows("a"));
  EXPECT_FALSE(throttle.Allows("a"));
  EXPECT_TRUE(throttle.Allows("b"));
  clock.Advance(absl::Seconds(61));
  EXPECT_TRUE(throttle.Allows("a"));
  EXPECT_FALSE(throttle.Allows("a"));
}

// Refuses once, then lists one object, then watches until stopped.
class OneRefusal : public TestClient {
 public:
  absl::StatusOr<kube::ListPage> List(const Resource&, const std::string&, const kube::ListOptions&,
                                      std::stop_token) override {
    if (tries_++ == 0) return absl::UnavailableError("connection refused");
    return Page({Pod("a", 1)});
  }
  absl::Status Watch(const Resource&, const std::string&, const kube::WatchOptions&,
                     const std::function<bool(kube::WatchEvent&)>&, std::stop_token stop) override {
    absl::Notification stopped;
    const std::stop_callback notify(stop, [&] { stopped.Notify(); });
    watching.Notify();
    EXPECT_TRUE(stopped.WaitForNotificationWithTimeout(absl::Seconds(60)));
    return absl::CancelledError("stopped");
  }
  absl::Notification watching;

 private:
  int tries_ = 0;
};

TEST(Watcher, WaitsByTheClockAndStopsWhileItWatches) {
  base::FakeClock clock(absl::FromUnixSeconds(1000));
  OneRefusal client;
  Recorder sink;
  WatcherOptions options;
  options.resource = kube::kPods;
  options.clock = &clock;
  const auto watcher = Watcher::Create(&client, options, &sink);
  EXPECT_EQ(watcher->state(), "listing");
  watcher->Start();
  ASSERT_TRUE(clock.AwaitSleepers(1));
  EXPECT_THAT(watcher->state(), AllOf(HasSubstr("waiting "), HasSubstr(": connection refused")));
  EXPECT_FALSE(watcher->synced());
  clock.Advance(absl::Seconds(1));
  ASSERT_TRUE(client.watching.WaitForNotificationWithTimeout(absl::Seconds(30)));
  EXPECT_EQ(watcher->state(), "watching");
  EXPECT_TRUE(watcher->synced());
  EXPECT_THAT(sink.notes(), ElementsAre("[", "+a", "]"));
}

TEST(Watcher, StopsWhileItWaits) {
  base::FakeClock clock(absl::FromUnixSeconds(1000));
  TestClient client;  // everything fails
  Recorder sink;
  WatcherOptions options;
  options.resource = kube::kPods;
  options.clock = &clock;
  const auto watcher = Watcher::Create(&client, options, &sink);
  watcher->Start();
  ASSERT_TRUE(clock.AwaitSleepers(1));
}

}  // namespace
}  // namespace runtime
