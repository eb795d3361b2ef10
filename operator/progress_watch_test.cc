// Questions to real HTTP servers on loopback, good and bad ones.
#include "operator/progress_watch.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "operator/api/names.h"
#include "operator/progress_ask.h"

namespace tfjob {
namespace {

using ::testing::HasSubstr;

constexpr char kGood[] = R"({"global_step":3,"last_step":9})";
constexpr absl::Duration kAskPatience = absl::Seconds(30);

class ProgressServer {
 public:
  explicit ProgressServer(httplib::Server::Handler answer, const std::string& host = "127.0.0.1") {
    server_.Get("/progress", std::move(answer));
    port_ = server_.bind_to_any_port(host);
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  ~ProgressServer() {
    while (!server_.is_running()) std::this_thread::yield();
    server_.stop();
    thread_.join();
  }
  int port() const { return port_; }

 private:
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

// Sends these bytes to whoever connects, whatever it asks, then `closes` or waits for its end.
class RawServer {
 public:
  explicit RawServer(std::string bytes, bool closes = true) : bytes_(std::move(bytes)) {
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket_, 8), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, closes] {
      for (int peer; (peer = ::accept(socket_, nullptr, nullptr)) >= 0;) {
        char ignored[1024];
        (void)!::recv(peer, ignored, sizeof ignored, 0);
        (void)!::send(peer, bytes_.data(), bytes_.size(), MSG_NOSIGNAL);
        if (!closes) (void)!::recv(peer, ignored, 1, 0);
        ::close(peer);
      }
    });
  }
  ~RawServer() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }
  int port() const { return port_; }

 private:
  const std::string bytes_;
  int socket_ = -1;
  int port_ = 0;
  std::thread thread_;
};

absl::StatusOr<Progress> AskOnce(int port, const std::string& ip = "127.0.0.1") {
  ProgressAsk ask(ip, port);
  const absl::Time deadline = absl::Now() + absl::Seconds(5);
  while (!ask.result()) {
    pollfd fd{ask.fd(), ask.events(), 0};
    if (::poll(&fd, 1, 100) == 1) ask.Advance();
    if (absl::Now() > deadline) return absl::DeadlineExceededError("no answer in time");
  }
  return *ask.result();
}

std::string WhyNot(const std::string& answer) {
  const RawServer server(answer);
  return std::string(AskOnce(server.port()).status().message());
}

TEST(ProgressAsk, ReadsAnAnswer) {
  const ProgressServer server(
      [](const auto&, auto& response) { response.set_content(kGood, "a/b"); });
  EXPECT_EQ(*AskOnce(server.port()), (Progress{.global_step = 3, .last_step = 9}));
}

TEST(ProgressAsk, ReadsOneWithoutLengthAndOneThatDoesNotClose) {
  const RawServer closes(absl::StrCat("HTTP/1.0 200 OK\r\n\r\n", kGood));
  EXPECT_EQ(AskOnce(closes.port())->global_step, 3);
  const RawServer stays(absl::StrCat("HTTP/1.1 200\r\ncontent-LENGTH:31\r\n\r\n", kGood), false);
  EXPECT_EQ(AskOnce(stays.port())->global_step, 3);
}

TEST(ProgressAsk, SaysWhatIsWrongWithAnAnswer) {
  EXPECT_EQ(WhyNot("garbage"), "what it answers is no HTTP");
  EXPECT_EQ(WhyNot("HTTP/1.\r\n\r\n"), "what it answers is no HTTP");
  EXPECT_EQ(WhyNot(""), "what it answers is no HTTP");
  EXPECT_EQ(WhyNot("HTTP/1.1 404 Not Found\r\n\r\n"), "it answers HTTP 404");
  EXPECT_THAT(WhyNot("HTTP/1.1 200 OK\r\n\r\n{}"), HasSubstr("no JSON object with global_step"));
  EXPECT_EQ(WhyNot("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"), "its answer was cut");
  EXPECT_THAT(WhyNot("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}"), HasSubstr("wrong Content"));
  EXPECT_THAT(WhyNot("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
              HasSubstr("chunked"));
}

TEST(ProgressAsk, ReadsNoMoreThanIsAllowed) {
  const std::string much(200'000, ' ');
  EXPECT_EQ(WhyNot("HTTP/1.1 200 OK\r\n\r\n" + much), "it answers over 64 KiB");
  EXPECT_EQ(WhyNot("HTTP/1.1 200 OK\r\nContent-Length: 65537\r\n\r\n"), "it answers over 64 KiB");
  EXPECT_EQ(WhyNot("HTTP/1.1 200 OK\r\nX: " + much), "its answer has too long a head");
}

TEST(ProgressAsk, FollowsNoRedirect) {
  std::atomic<bool> followed = false;
  const ProgressServer other([&](const auto&, auto& response) {
    followed = true;
    response.set_content(kGood, "a/b");
  });
  const ProgressServer server([&](const auto&, auto& response) {
    response.set_redirect(absl::StrCat("http://127.0.0.1:", other.port(), "/progress"));
  });
  EXPECT_EQ(AskOnce(server.port()).status().message(), "it answers HTTP 302");
  EXPECT_FALSE(followed);
}

TEST(ProgressAsk, LooksUpNoNames) {
  EXPECT_EQ(AskOnce(80, "localhost").status().message(), "its pod's IP is none");
}

TEST(ProgressAsk, SaysThatNobodyListens) {
  int port = 0;
  {
    port = RawServer("").port();
  }
  EXPECT_EQ(AskOnce(port).status().message(), "cannot be reached: Connection refused");
}

// A watch with short times, and what it told.
class ProgressWatchTest : public ::testing::Test {
 protected:
  void Begin(ProgressWatchOptions options = {}) {
    options.first_retry = absl::Milliseconds(20);
    options.max_retry = absl::Milliseconds(50);
    options.on_news = [this](const std::string& key) {
      absl::MutexLock lock(&mutex_);
      ++news_[key];
    };
    watch_ = ProgressWatch::Create(std::move(options));
    watch_->Start();
  }
  void TearDown() override { watch_.reset(); }

  static ProgressTarget Target(int port, absl::Duration interval = absl::Milliseconds(20)) {
    return {.job_uid = "j", .pod_uid = "p", .ip = "127.0.0.1", .port = port, .interval = interval};
  }
  void Follow(const std::string& key, const ProgressTarget& target) {
    watch_->Follow(key, target, absl::InfinitePast());
  }
  bool AwaitNews(const std::string& key, int count) {
    absl::MutexLock lock(&mutex_);
    const auto there = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return news_[key] >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&there), kAskPatience);
  }
  int news(const std::string& key) {
    absl::MutexLock lock(&mutex_);
    return news_[key];
  }
  template <typename Done>
  bool Await(Done done) {
    const absl::Time deadline = absl::Now() + kAskPatience;
    while (!done()) {
      if (absl::Now() > deadline) return false;
      absl::SleepFor(absl::Milliseconds(2));
    }
    return true;
  }

  absl::Mutex mutex_;
  std::map<std::string, int> news_;
  std::unique_ptr<ProgressWatch> watch_;
};

TEST_F(ProgressWatchTest, TellsNewsAndNothingElse) {
  std::atomic<int> asked = 0;
  std::atomic<int> step = 1;
  const ProgressServer server([&](const auto&, auto& response) {
    ++asked;
    response.set_content(absl::StrCat("{\"global_step\":", step.load(), "}"), "a/b");
  });
  Begin();
  Follow("ns/j", Target(server.port()));
  ASSERT_TRUE(AwaitNews("ns/j", 1));
  EXPECT_EQ(watch_->Latest("ns/j"), Progress{.global_step = 1});
  ASSERT_TRUE(Await([&] { return asked > 4; }));
  EXPECT_EQ(news("ns/j"), 1);
  step = 2;
  ASSERT_TRUE(AwaitNews("ns/j", 2));
  EXPECT_EQ(watch_->All().at("ns/j").global_step, 2);
  EXPECT_GE(watch_->counters().answered, 5);
  watch_->Follow("ns/j", std::nullopt, absl::InfinitePast());
  EXPECT_EQ(watch_->Latest("ns/j"), std::nullopt);
}

TEST_F(ProgressWatchTest, AsksNoMoreOftenThanItIsTold) {
  std::atomic<int> asked = 0;
  const ProgressServer server([&](const auto&, auto& response) {
    response.set_content(absl::StrCat("{\"global_step\":", ++asked, "}"), "a/b");
  });
  Begin();
  Follow("ns/j", Target(server.port(), absl::Hours(1)));
  ASSERT_TRUE(AwaitNews("ns/j", 1));
  // An equal target changes nothing; one that follows a write of this moment waits its time.
  Follow("ns/j", Target(server.port(), absl::Hours(1)));
  ProgressTarget next = Target(server.port(), absl::Hours(1));
  next.pod_uid = "other";
  watch_->Follow("ns/j", next, absl::Now());
  Follow("ns/k", Target(server.port(), absl::Hours(1)));
  ASSERT_TRUE(AwaitNews("ns/k", 1));
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(watch_->Latest("ns/j"), std::nullopt);
}

TEST_F(ProgressWatchTest, OneThatHangsHoldsUpNoOther) {
  const RawServer hangs("HTTP/1.1 200 OK\r\n", /*closes=*/false);
  const ProgressServer server(
      [](const auto&, auto& response) { response.set_content(kGood, "a/b"); });
  Begin();
  for (int i = 0; i < 20; ++i) Follow(absl::StrCat("hangs/", i), Target(hangs.port()));
  Follow("ns/j", Target(server.port()));
  const absl::Time begun = absl::Now();
  ASSERT_TRUE(AwaitNews("ns/j", 1));
  EXPECT_LT(absl::Now() - begun, absl::Seconds(2));  // the time that the first one has
}

TEST_F(ProgressWatchTest, GivesUpAfterItsTimeAndTriesAgain) {
  const RawServer hangs("HTTP/1.1 200 OK\r\n", /*closes=*/false);
  Begin({.timeout = absl::Milliseconds(30)});
  Follow("ns/j", Target(hangs.port()));
  EXPECT_TRUE(Await([&] { return watch_->counters().failed >= 4; }));
  EXPECT_EQ(news("ns/j"), 0);
}

TEST_F(ProgressWatchTest, GoesOnAfterAFailure) {
  std::atomic<bool> ready = false;
  const ProgressServer server([&](const auto&, auto& response) {
    if (ready) return response.set_content(kGood, "a/b");
    response.status = 503;
  });
  Begin();
  Follow("ns/j", Target(server.port()));
  ASSERT_TRUE(Await([&] { return watch_->counters().failed >= 2; }));
  ready = true;
  EXPECT_TRUE(AwaitNews("ns/j", 1));
}

TEST_F(ProgressWatchTest, BoundsHowOftenItAsksAltogether) {
  std::atomic<int> asked = 0;
  const ProgressServer server([&](const auto&, auto& response) {
    ++asked;
    response.set_content(kGood, "a/b");
  });
  Begin({.max_per_second = 100});
  const absl::Time begun = absl::Now();
  for (int i = 0; i < 60; ++i)
    Follow(absl::StrCat("ns/", i), Target(server.port(), absl::Hours(1)));
  ASSERT_TRUE(Await([&] { return asked == 60; }));
  EXPECT_GE(absl::Now() - begun, absl::Milliseconds(400));  // 60 at 100 a second, ten at once
}

TEST_F(ProgressWatchTest, AsksNobodyBeforeStartAndAfterStop) {
  std::atomic<int> asked = 0;
  const ProgressServer server([&](const auto&, auto& response) {
    ++asked;
    response.set_content(kGood, "a/b");
  });
  watch_ = ProgressWatch::Create({});
  Follow("ns/j", Target(server.port()));
  watch_->Start();
  Follow("ns/k", Target(server.port()));
  ASSERT_TRUE(Await([&] { return watch_->Latest("ns/k").has_value(); }));
  watch_->Stop();
  EXPECT_TRUE(watch_->All().empty());
  const int until_stop = asked;
  Follow("ns/l", Target(server.port()));
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(asked, until_stop);
}

// A job of one PS and one worker that serves port 9100; both pods run.
Observed RunningJob() {
  Observed observed;
  observed.job.metadata = {.name = "j", .namespace_name = "ns", .uid = "u"};
  const Json port = {{"name", "progress"}, {"containerPort", 9100}};
  Json pod_template;
  pod_template["spec"]["containers"] = {{{"name", "tensorflow"}, {"ports", {port}}}};
  observed.job.spec.replicas.emplace();
  (*observed.job.spec.replicas)["PS"] = {.replicas = 1, .pod_template = pod_template};
  (*observed.job.spec.replicas)["Worker"] = {.replicas = 2, .pod_template = pod_template};
  for (const char* name : {"j-ps-0", "j-worker-1", "j-worker-0"}) {
    observed.pods.push_back({.name = name,
                             .uid = std::string("uid of ") + name,
                             .owner_uid = "u",
                             .phase = PodPhase::kRunning,
                             .ip = std::string("ip of ") + name});
  }
  return observed;
}

TEST(ProgressTargetOf, IsWorker0WhereThereIsNoChief) {
  EXPECT_EQ(ProgressTargetOf(RunningJob()), (ProgressTarget{.job_uid = "u",
                                                            .pod_uid = "uid of j-worker-0",
                                                            .ip = "ip of j-worker-0",
                                                            .port = 9100,
                                                            .interval = absl::Seconds(10)}));
  Observed slower = RunningJob();
  slower.job.spec.progress = {.interval_seconds = 60};
  EXPECT_EQ(ProgressTargetOf(slower)->interval, absl::Minutes(1));
  Observed with_chief = RunningJob();
  (*with_chief.job.spec.replicas)["Chief"] = (*with_chief.job.spec.replicas)["PS"];
  EXPECT_EQ(ProgressTargetOf(with_chief), std::nullopt);  // whose pod is not there
}

TEST(ProgressTargetOf, IsNobodyWhereNothingCanBeTold) {
  const auto nobody = [](const std::function<void(Observed&)>& change) {
    Observed observed = RunningJob();
    change(observed);
    return !ProgressTargetOf(observed).has_value();
  };
  EXPECT_TRUE(nobody([](Observed& o) { o.pods[2].phase = PodPhase::kPending; }));
  EXPECT_TRUE(nobody([](Observed& o) { o.pods[2].phase = PodPhase::kSucceeded; }));
  EXPECT_TRUE(nobody([](Observed& o) { o.pods[2].deletion_time = absl::Now(); }));
  EXPECT_TRUE(nobody([](Observed& o) { o.pods[2].owner_uid = "another's"; }));
  EXPECT_TRUE(nobody([](Observed& o) { o.pods[2].ip = ""; }));
  EXPECT_TRUE(nobody([](Observed& o) { o.job.spec.run_policy.suspend = true; }));
  EXPECT_TRUE(nobody([](Observed& o) { o.job.spec.run_policy.managed_by = kManagedByMultiKueue; }));
  EXPECT_TRUE(nobody([](Observed& o) { o.job.metadata.deletion_time = absl::Now(); }));
  EXPECT_TRUE(nobody([](Observed& o) {
    o.job.status.conditions.push_back({.type = kSucceeded, .status = kTrue});
  }));
  EXPECT_TRUE(nobody([](Observed& o) { o.job.spec.progress = {.port_name = "http"}; }));
}

}  // namespace
}  // namespace tfjob
