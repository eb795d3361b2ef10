// The client over a scripted transport (tries, waits, gates) and over the fake API server.
#include "operator/kube/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "operator/kube/fake_apiserver.h"

namespace kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kClientPatience = absl::Seconds(20);

// Gives prepared answers and keeps what was asked.
class ScriptedTransport : public Transport {
 public:
  absl::StatusOr<Response> Call(const Request& request, std::stop_token) override {
    requests.push_back(request);
    if (answers.empty()) return absl::InternalError("the script has ended");
    absl::StatusOr<Response> answer = answers.front();
    answers.pop_front();
    return answer;
  }
  absl::StatusOr<Response> Stream(const Request& request,
                                  const std::function<bool(std::string_view)>& on_data,
                                  std::stop_token) override {
    requests.push_back(request);
    for (const std::string& piece : pieces) {
      if (!on_data(piece)) break;
    }
    return answers.front();
  }
  std::deque<absl::StatusOr<Response>> answers;
  std::vector<std::string> pieces;
  std::vector<Request> requests;
};

Response Ok(const std::string& body = "{}") { return {200, body, {}}; }
Response Error(int code, std::map<std::string, std::string> headers = {}) {
  return {code, R"({"message":"no"})", std::move(headers)};
}

struct Scripted {
  explicit Scripted(ClientOptions options = {}) {
    options.wait = [this](absl::Duration duration, std::stop_token) {
      waits.push_back(duration);
      return go_on;
    };
    options.on_call = [this](std::string_view verb, const Resource& resource, int code,
                             absl::Duration) {
      observed.push_back(
          absl::StrCat(std::string(verb), " ", std::string(resource.plural), " ", code));
    };
    client = Client::Create(transport, options);
  }
  std::shared_ptr<ScriptedTransport> transport = std::make_shared<ScriptedTransport>();
  std::vector<absl::Duration> waits;
  std::vector<std::string> observed;
  bool go_on = true;
  std::unique_ptr<Client> client;
};

TEST(ClientTest, ReadsAreTriedAgainAfter5xxAndBrokenConnections) {
  Scripted s;
  s.transport->answers = {Error(500), Error(503), absl::UnavailableError("broke"),
                          Ok(R"({"a":1})")};
  const auto object = s.client->Get(kPods, "x", "a");
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(*object, Json({{"a", 1}}));
  ASSERT_EQ(s.waits.size(), 3);
  EXPECT_GE(s.waits[0], absl::Milliseconds(50));
  EXPECT_LE(s.waits[0], absl::Milliseconds(150));
  EXPECT_GE(s.waits[2], absl::Milliseconds(200));
  EXPECT_LE(s.waits[2], absl::Milliseconds(600));
  EXPECT_THAT(s.observed,
              ElementsAre("get pods 500", "get pods 503", "get pods 0", "get pods 200"));
}

TEST(ClientTest, GivesUpAfterMaxRetries) {
  Scripted s(ClientOptions{.max_retries = 2});
  for (int i = 0; i < 5; ++i) s.transport->answers.push_back(Error(503));
  EXPECT_TRUE(absl::IsUnavailable(s.client->List(kPods, "", {}).status()));
  EXPECT_EQ(s.transport->requests.size(), 3);
}

TEST(ClientTest, WritesAreNotRepeatedUnlessTheyWereRefused) {
  for (const absl::StatusOr<Response>& answer : std::vector<absl::StatusOr<Response>>{
           Error(500), Error(503), absl::UnavailableError("broke")}) {
    Scripted s;
    s.transport->answers = {answer};
    EXPECT_TRUE(absl::IsUnavailable(s.client->Create(kPods, "x", Json::object()).status()));
    EXPECT_THAT(s.waits, IsEmpty());
  }
  Scripted s;
  s.transport->answers = {Error(429, {{"retry-after", "2"}}), Ok()};
  EXPECT_TRUE(s.client->Create(kPods, "x", Json::object()).ok());
  ASSERT_EQ(s.waits.size(), 1);
  EXPECT_GE(s.waits[0], absl::Seconds(2));
  EXPECT_LE(s.waits[0], absl::Seconds(2.2));
}

TEST(ClientTest, ALongRetryAfterIsTheCallersToWait) {
  Scripted s;
  s.transport->answers = {Error(429, {{"retry-after", "60"}})};
  const auto result = s.client->Get(kPods, "x", "a");
  EXPECT_TRUE(absl::IsResourceExhausted(result.status()));
  EXPECT_EQ(RetryAfter(result.status()), absl::Minutes(1));
  EXPECT_THAT(s.waits, IsEmpty());
}

TEST(ClientTest, DeadlinesAndOtherErrorsAreFinal) {
  for (const absl::StatusOr<Response>& answer : std::vector<absl::StatusOr<Response>>{
           Error(404), Error(403), Error(422), Error(409), absl::DeadlineExceededError("slow"),
           absl::CancelledError("stop"), absl::UnauthenticatedError("no token")}) {
    Scripted s;
    s.transport->answers = {answer};
    EXPECT_FALSE(s.client->Get(kPods, "x", "a").ok());
    EXPECT_EQ(s.transport->requests.size(), 1);
  }
}

TEST(ClientTest, StopEndsTheWaitBetweenTries) {
  Scripted s;
  s.go_on = false;
  s.transport->answers = {Error(503), Ok()};
  EXPECT_TRUE(absl::IsUnavailable(s.client->Get(kPods, "x", "a").status()));
  EXPECT_EQ(s.transport->requests.size(), 1);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(s.client->Get(kPods, "x", "a", stop.get_token()).status()));
}

TEST(ClientTest, ARealWaitEndsWhenStopped) {
  const auto transport = std::make_shared<ScriptedTransport>();
  const auto client = Client::Create(transport, {});
  transport->answers = {Error(429, {{"retry-after", "10"}}), Ok()};
  std::stop_source stop;
  const absl::Time start = absl::Now();
  std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_FALSE(client->Get(kPods, "x", "a", stop.get_token()).ok());
  EXPECT_LT(absl::Now() - start, absl::Seconds(9));
}

TEST(ClientTest, MayWriteGuardsEveryTryOfEveryWrite) {
  int asked = 0;
  Scripted s(ClientOptions{.may_write = [&] { return ++asked < 2; }});
  s.transport->answers = {Error(429), Ok()};
  const Json object = {{"metadata", {{"name", "a"}}}};
  EXPECT_TRUE(absl::IsFailedPrecondition(s.client->Create(kPods, "x", object).status()));
  EXPECT_EQ(s.transport->requests.size(), 1);  // the second try was not sent
  EXPECT_TRUE(absl::IsFailedPrecondition(s.client->Replace(kPods, "x", object).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(s.client->ReplaceStatus(kPods, "x", object).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      s.client->Patch(kPods, "x", "a", PatchType::kMerge, object).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(s.client->Delete(kPods, "x", "a")));
  EXPECT_EQ(s.transport->requests.size(), 1);
  EXPECT_TRUE(s.client->Get(kPods, "x", "a").ok());
}

TEST(ClientTest, MessagesSayWhatWasTriedOnWhat) {
  Scripted s;
  s.transport->answers = {Error(404), absl::DeadlineExceededError("no answer"), Ok("nonsense")};
  EXPECT_EQ(s.client->Delete(kTfJobs, "ns", "j").message(), "delete tfjobs ns/j: no (HTTP 404)");
  EXPECT_EQ(
      s.client->ReplaceStatus(kTfJobs, "ns", {{"metadata", {{"name", "j"}}}}).status().message(),
      "status tfjobs/status ns/j: no answer");
  EXPECT_THAT(std::string(s.client->Get(kPods, "x", "a").status().message()),
              HasSubstr("get pods x/a: the answer is no JSON"));
}

TEST(ClientTest, EveryRequestHasADeadlineAndAName) {
  Scripted s(ClientOptions{.user_agent = "me/2", .call_timeout = absl::Seconds(3)});
  s.transport->answers = {Ok()};
  ASSERT_TRUE(s.client->Get(kPods, "x", "a").ok());
  EXPECT_EQ(s.transport->requests[0].timeout, absl::Seconds(3));
  EXPECT_EQ(s.transport->requests[0].user_agent, "me/2");
}

TEST(ClientTest, AWatchCutInMidEventIsUnavailable) {
  Scripted s;
  s.transport->answers = {Ok("")};
  s.transport->pieces = {R"({"type":"ADDED","object":{}})"
                         "\n",
                         R"({"type":)"};
  int events = 0;
  const auto on_event = [&](WatchEvent&) { return ++events > 0; };
  EXPECT_TRUE(absl::IsUnavailable(s.client->Watch(kPods, "", {}, on_event, {})));
  EXPECT_EQ(events, 1);
  s.transport->answers = {Error(429, {{"retry-after", "4"}})};
  s.transport->pieces = {};
  const absl::Status refused = s.client->Watch(kPods, "", {}, on_event, {});
  EXPECT_EQ(RetryAfter(refused), absl::Seconds(4));
  EXPECT_THAT(s.observed, ElementsAre("watch pods 200", "watch pods 429"));
}

// --- over the fake API server

Json Job(const std::string& name, const std::string& ns = "ns") {
  return {{"apiVersion", "kubeflow.org/v1"},
          {"kind", "TFJob"},
          {"metadata", {{"name", name}, {"namespace", ns}, {"labels", {{"app", name}}}}},
          {"spec", {{"n", 1}}}};
}
Json Pod(const std::string& name, const Json& owner = nullptr) {
  Json pod = {{"metadata", {{"name", name}, {"namespace", "ns"}}}};
  if (!owner.is_null()) {
    pod["metadata"]["ownerReferences"] = {{{"uid", owner["metadata"]["uid"]}}};
  }
  return pod;
}

struct Faked {
  explicit Faked(FakeApiServerOptions options = {})
      : server(std::make_shared<FakeApiServer>(options)),
        client(Client::Create(
            server, ClientOptions{.wait = [](absl::Duration, std::stop_token) { return true; }})) {}
  std::shared_ptr<FakeApiServer> server;
  std::unique_ptr<Client> client;
};

TEST(FakeApiServerTest, ALifeOfAnObject) {
  Faked f;
  auto job = f.client->Create(kTfJobs, "ns", Job("a"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)["metadata"]["generation"], 1);
  EXPECT_TRUE(absl::IsAlreadyExists(f.client->Create(kTfJobs, "ns", Job("a")).status()));
  Json changed = *job;
  changed["spec"]["n"] = 2;
  changed["status"] = {{"x", 1}};
  const auto replaced = f.client->Replace(kTfJobs, "ns", changed);
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  EXPECT_EQ((*replaced)["metadata"]["generation"], 2);
  EXPECT_FALSE(replaced->contains("status"));  // a main write keeps the status
  EXPECT_TRUE(absl::IsAborted(f.client->ReplaceStatus(kTfJobs, "ns", changed).status()));
  Json with_status = *replaced;
  with_status["status"] = {{"x", 1}};
  with_status["spec"]["n"] = 3;
  const auto status = f.client->ReplaceStatus(kTfJobs, "ns", with_status);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ((*status)["status"]["x"], 1);
  EXPECT_EQ((*status)["spec"]["n"], 2);  // a status write keeps the rest
  const auto again = f.client->ReplaceStatus(kTfJobs, "ns", *status);
  EXPECT_EQ((*again)["metadata"]["resourceVersion"], (*status)["metadata"]["resourceVersion"]);
  EXPECT_TRUE(absl::IsAborted(f.client->Delete(kTfJobs, "ns", "a", {.uid = "another"})));
  EXPECT_TRUE(f.client->Delete(kTfJobs, "ns", "a", {.uid = (*job)["metadata"]["uid"]}).ok());
  EXPECT_TRUE(absl::IsNotFound(f.client->Delete(kTfJobs, "ns", "a")));
  EXPECT_TRUE(absl::IsNotFound(f.client->Get(kTfJobs, "ns", "a").status()));
}

TEST(FakeApiServerTest, RefusesWhatARealOneRefuses) {
  Faked f;
  EXPECT_TRUE(absl::IsInvalidArgument(f.client->Create(kPods, "ns", Pod("Not_A_Name")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(f.client->Create(kServices, "ns", Pod("1a")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(f.client->Create(kTfJobs, "other", Job("a")).status()));
  ASSERT_TRUE(f.client->Create(kTfJobs, "ns", Job("a")).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(f.client->Replace(kTfJobs, "ns", Job("a")).status()));
  EXPECT_TRUE(absl::IsNotFound(f.client->Replace(kTfJobs, "ns", Job("b")).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(f.client->List(kPods, "", {.label_selector = "a b"}).status()));
}

TEST(FakeApiServerTest, PatchesInFourWays) {
  Faked f;
  ASSERT_TRUE(f.client->Create(kTfJobs, "ns", Job("a")).ok());
  const Json merge = {{"spec", {{"n", nullptr}, {"m", 2}}}};
  EXPECT_EQ((*f.client->Patch(kTfJobs, "ns", "a", PatchType::kMerge, merge))["spec"],
            Json({{"m", 2}}));
  const Json operations = Json::parse(R"([{"op":"replace","path":"/spec/m","value":3}])");
  EXPECT_EQ((*f.client->Patch(kTfJobs, "ns", "a", PatchType::kJson, operations))["spec"]["m"], 3);
  EXPECT_FALSE(f.client->Patch(kTfJobs, "ns", "a", PatchType::kStrategicMerge, merge).ok());
  const Json status = {{"status", {{"phase", "Running"}}}};
  ASSERT_TRUE(f.client->Create(kPods, "ns", Pod("p")).ok());
  EXPECT_EQ((*f.client->Patch(kPods, "ns", "p", PatchType::kStrategicMerge, status,
                              "status"))["status"]["phase"],
            "Running");
  EXPECT_TRUE(f.client->Patch(kTfJobs, "ns", "b", PatchType::kApply, Job("b")).ok());
  EXPECT_TRUE(f.server->Find(kTfJobs, "ns", "b").has_value());
}

TEST(FakeApiServerTest, GeneratesNames) {
  Faked f;
  const Json event = {{"metadata", {{"generateName", "e-"}}}};
  const auto a = f.client->Create(kEvents, "ns", event);
  const auto b = f.client->Create(kEvents, "ns", event);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE((*a)["metadata"]["name"], (*b)["metadata"]["name"]);
}

TEST(FakeApiServerTest, ListsInPagesBySelector) {
  Faked f;
  for (int i = 0; i < 7; ++i) {
    Json pod = Pod(absl::StrCat("p", i));
    pod["metadata"]["labels"] = {{"odd", i % 2 == 1 ? "yes" : "no"}};
    ASSERT_TRUE(f.client->Create(kPods, "ns", pod).ok());
  }
  const auto names = [&](const std::string& selector, int limit) {
    std::vector<std::string> out;
    ListOptions options{.label_selector = selector, .limit = limit};
    do {
      const auto page = f.client->List(kPods, "", options);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) return out;
      EXPECT_LE(page->items.size(), static_cast<size_t>(limit));
      for (const Json& item : page->items) out.push_back(item["metadata"]["name"]);
      options.continue_token = page->continue_token;
    } while (!options.continue_token.empty());
    return out;
  };
  EXPECT_THAT(names("odd=yes", 2), ElementsAre("p1", "p3", "p5"));
  EXPECT_EQ(names("odd", 3).size(), 7);
  EXPECT_EQ(names("odd!=yes,even", 3).size(), 0);
  EXPECT_EQ(names("odd in (yes,no), !even", 3).size(), 7);
  EXPECT_EQ(names("odd notin (yes)", 3).size(), 4);
  const auto first = f.client->List(kPods, "", {.limit = 2});
  f.server->Compact();
  EXPECT_TRUE(absl::IsOutOfRange(
      f.client->List(kPods, "", {.limit = 2, .continue_token = first->continue_token}).status()));
}

// Runs a watch in a thread and keeps its events.
class Recorder {
 public:
  Recorder(Client* client, const Resource& resource, WatchOptions options)
      : thread_([=, this](std::stop_token stop) {
          const absl::Status status = client->Watch(
              resource, "", options,
              [&](WatchEvent& event) {
                absl::MutexLock lock(&mutex_);
                const Json& metadata = event.object["metadata"];
                events_.push_back(absl::StrCat(event.type, " ", metadata.value("name", "")));
                return true;
              },
              stop);
          absl::MutexLock lock(&mutex_);
          status_ = status;
        }) {}
  std::vector<std::string> Await(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto reached = [&] { return events_.size() >= count; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&reached), kClientPatience));
    return events_;
  }
  absl::Status Join(bool stop) {
    if (stop) thread_.request_stop();
    thread_.join();
    return status_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::string> events_;
  absl::Status status_;
  std::jthread thread_;
};

TEST(FakeApiServerTest, WatchesFromAVersionInAnyCut) {
  for (const size_t piece : {0, 1, 7}) {
    Faked f(FakeApiServerOptions{.piece_bytes = piece});
    ASSERT_TRUE(f.client->Create(kPods, "ns", Pod("old")).ok());
    const std::string version = f.client->List(kPods, "", {})->resource_version;
    ASSERT_TRUE(f.client->Create(kPods, "ns", Pod("a")).ok());
    Recorder recorder(f.client.get(), kPods, {.resource_version = version});
    ASSERT_TRUE(f.server->WaitForWatches("pods", 1, kClientPatience));
    f.server->SetStatus(kPods, "ns", "a", {{"phase", "Running"}});
    ASSERT_TRUE(f.client->Create(kServices, "ns", Pod("other")).ok());
    ASSERT_TRUE(f.client->Delete(kPods, "ns", "old").ok());
    recorder.Await(3);
    f.server->SendBookmarks();
    EXPECT_THAT(recorder.Await(4),
                ElementsAre("ADDED a", "MODIFIED a", "DELETED old", "BOOKMARK "));
    f.server->CloseWatches();
    EXPECT_TRUE(recorder.Join(false).ok());
    EXPECT_TRUE(f.server->WaitForWatches("pods", 0, kClientPatience));
  }
}

TEST(FakeApiServerTest, AWatchEndsByStopCutAndExpiry) {
  Faked f(FakeApiServerOptions{.store = {.watch_window = 2}});
  {
    Recorder recorder(f.client.get(), kPods, {.resource_version = "1"});
    ASSERT_TRUE(f.server->WaitForWatches("pods", 1, kClientPatience));
    EXPECT_TRUE(absl::IsCancelled(recorder.Join(true)));
  }
  {
    Recorder recorder(f.client.get(), kPods, {.resource_version = "1"});
    ASSERT_TRUE(f.server->WaitForWatches("pods", 1, kClientPatience));
    f.server->CutWatches();
    EXPECT_TRUE(absl::IsUnavailable(recorder.Join(false)));
  }
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(f.client->Create(kPods, "ns", Pod(absl::StrCat("p", i))).ok());
  Recorder recorder(f.client.get(), kPods, {.resource_version = "1"});
  EXPECT_TRUE(absl::IsOutOfRange(recorder.Join(false)));
}

TEST(FakeApiServerTest, AWatcherWithASelectorSeesObjectsComeAndGo) {
  Faked f;
  Recorder recorder(f.client.get(), kPods, {.label_selector = "mine=1", .resource_version = "1"});
  ASSERT_TRUE(f.server->WaitForWatches("pods", 1, kClientPatience));
  Json pod = Pod("a");
  ASSERT_TRUE(f.client->Create(kPods, "ns", pod).ok());
  for (const char* value : {"1", "2", "1"}) {
    pod["metadata"]["labels"] = {{"mine", value}};
    ASSERT_TRUE(f.client->Replace(kPods, "ns", pod).ok());
  }
  EXPECT_THAT(recorder.Await(3), ElementsAre("ADDED a", "DELETED a", "ADDED a"));
  EXPECT_TRUE(absl::IsCancelled(recorder.Join(true)));
}

TEST(FakeApiServerTest, DependentsGoWithTheirOwner) {
  Faked f(FakeApiServerOptions{.store = {.graceful_pods = true}});
  const Json job = *f.client->Create(kTfJobs, "ns", Job("a"));
  ASSERT_TRUE(f.client->Create(kPods, "ns", Pod("p", job)).ok());
  ASSERT_TRUE(f.client->Create(kServices, "ns", Pod("s", job)).ok());
  ASSERT_TRUE(f.client->Create(kServices, "ns", Pod("foreign")).ok());
  ASSERT_TRUE(f.client->Delete(kTfJobs, "ns", "a").ok());
  EXPECT_FALSE(f.server->Find(kServices, "ns", "s").has_value());
  EXPECT_TRUE(f.server->Find(kServices, "ns", "foreign").has_value());
  const auto pod = f.server->Find(kPods, "ns", "p");
  ASSERT_TRUE(pod.has_value());
  EXPECT_TRUE((*pod)["metadata"].contains("deletionTimestamp"));
  f.server->FinishDeletions();
  EXPECT_THAT(f.server->Objects(kPods), IsEmpty());
}

TEST(FakeApiServerTest, OrphansStayAndForegroundWaits) {
  Faked f(FakeApiServerOptions{.store = {.graceful_pods = true}});
  const Json a = *f.client->Create(kTfJobs, "ns", Job("a"));
  ASSERT_TRUE(f.client->Create(kPods, "ns", Pod("pa", a)).ok());
  ASSERT_TRUE(f.client->Delete(kTfJobs, "ns", "a", {.propagation = "Orphan"}).ok());
  EXPECT_FALSE((*f.server->Find(kPods, "ns", "pa"))["metadata"].contains("ownerReferences"));
  const Json b = *f.client->Create(kTfJobs, "ns", Job("b"));
  ASSERT_TRUE(f.client->Create(kPods, "ns", Pod("pb", b)).ok());
  ASSERT_TRUE(f.client->Delete(kTfJobs, "ns", "b", {.propagation = "Foreground"}).ok());
  EXPECT_TRUE(f.server->Find(kTfJobs, "ns", "b").has_value());
  f.server->FinishDeletions();
  EXPECT_FALSE(f.server->Find(kTfJobs, "ns", "b").has_value());
}

TEST(FakeApiServerTest, FinalizersHoldAnObject) {
  Faked f;
  Json job = Job("a");
  job["metadata"]["finalizers"] = {"x/y"};
  ASSERT_TRUE(f.client->Create(kTfJobs, "ns", job).ok());
  ASSERT_TRUE(f.client->Delete(kTfJobs, "ns", "a").ok());
  Json held = *f.server->Find(kTfJobs, "ns", "a");
  EXPECT_TRUE(held["metadata"].contains("deletionTimestamp"));
  held["metadata"].erase("finalizers");
  ASSERT_TRUE(f.client->Replace(kTfJobs, "ns", held).ok());
  EXPECT_FALSE(f.server->Find(kTfJobs, "ns", "a").has_value());
}

TEST(FakeApiServerTest, FaultsHitBeforeOrAfterTheEffect) {
  Faked f;
  FakeFault next;
  f.server->SetFaults([&](const FakeCall& call) {
    return call.verb == "create" ? std::exchange(next, FakeFault{}) : FakeFault{};
  });
  next = {.cut_before = true};
  EXPECT_TRUE(absl::IsUnavailable(f.client->Create(kPods, "ns", Pod("a")).status()));
  EXPECT_FALSE(f.server->Find(kPods, "ns", "a").has_value());
  next = {.cut_after = true};
  EXPECT_TRUE(absl::IsUnavailable(f.client->Create(kPods, "ns", Pod("a")).status()));
  EXPECT_TRUE(f.server->Find(kPods, "ns", "a").has_value());
  next = {.code = 429, .retry_after_seconds = 1};
  EXPECT_TRUE(f.client->Create(kPods, "ns", Pod("b")).ok());  // refused, then done
  next = {.code = 403, .reason = "Forbidden", .message = "exceeded quota"};
  EXPECT_TRUE(absl::IsPermissionDenied(f.client->Create(kPods, "ns", Pod("c")).status()));
  EXPECT_EQ(f.server->Count("create", "pods"), 5);
  std::vector<int> codes;
  for (const FakeCall& call : f.server->Calls()) codes.push_back(call.code);
  EXPECT_THAT(codes, ElementsAre(0, 0, 429, 201, 403));
}

TEST(FakeApiServerTest, ADelayedAnswerMeetsTheDeadlineOrTheStop) {
  const auto server = std::make_shared<FakeApiServer>();
  const auto client = Client::Create(server, ClientOptions{.call_timeout = absl::Milliseconds(50)});
  server->SetFaults([](const FakeCall&) { return FakeFault{.delay = absl::Hours(1)}; });
  EXPECT_TRUE(absl::IsDeadlineExceeded(client->Get(kPods, "ns", "a").status()));
}

TEST(FakeApiServerTest, AWatchIsCutAfterSoManyEvents) {
  Faked f;
  for (int i = 0; i < 4; ++i)
    ASSERT_TRUE(f.client->Create(kPods, "ns", Pod(absl::StrCat("p", i))).ok());
  f.server->SetFaults([](const FakeCall&) { return FakeFault{.cut_watch_after = 2}; });
  Recorder recorder(f.client.get(), kPods, {.resource_version = "1"});
  EXPECT_TRUE(absl::IsUnavailable(recorder.Join(false)));
  EXPECT_THAT(recorder.Await(2), ElementsAre("ADDED p1", "ADDED p2"));
}

}  // namespace
}  // namespace kube
