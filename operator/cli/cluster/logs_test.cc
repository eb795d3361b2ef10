#include "operator/cli/cluster/logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "base/exit_codes.h"
#include "operator/cli/cluster/container_log.h"
#include "operator/kube/fake_apiserver.h"

namespace tfjob {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using kube::Json;

constexpr absl::Duration kLongest = absl::Seconds(30);

TEST(LogLinesTest, TakesTimestampsOffWhereverThePiecesAreCut) {
  const std::string log =
      "2026-01-01T00:00:01.000000001Z one\n2026-01-01T00:00:02.000000001Z \n"
      "2026-01-01T00:00:03.000000001Z three words here\nno timestamp\n";
  for (size_t cut = 1; cut < log.size(); ++cut) {
    LogLines lines;
    std::string out;
    for (size_t at = 0; at < log.size(); at += cut) out += lines.Add(log.substr(at, cut));
    EXPECT_EQ(out, "one\n\nthree words here\nno timestamp\n") << cut;
    EXPECT_EQ(lines.Since(), "2026-01-01T00:00:03Z");
  }
}

TEST(LogLinesTest, NoLineComesTwiceAndNoneIsLostOverAReconnection) {
  LogLines lines;
  EXPECT_EQ(lines.Since(), "");
  EXPECT_EQ(lines.Add("2026-01-01T00:00:01.1Z a___________________\n2026-01-01T00:00:01.2Z b\n"
                      "2026-01-01T00:00:01.2Z c\n2026-01-01T00:00:0"),
            "a___________________\nb\nc\n");
  lines.Reconnect();
  // The server gives the whole second again; d has the timestamp of b and c.
  EXPECT_EQ(
      lines.Add("2026-01-01T00:00:01.1Z a\n2026-01-01T00:00:01.2Z b\n"
                "2026-01-01T00:00:01.2Z c\n2026-01-01T00:00:01.2Z d\n2026-01-01T00:00:03.1Z e"),
      "d\n");
  EXPECT_EQ(lines.Rest(), "e\n");
}

// `trainyard logs` on a thread, its output gathered on another.
class LogsTest : public ::testing::Test {
 protected:
  LogsTest() {
    cluster_.client = kube::Client::Create(server_, {.max_retries = 0});
    cluster_.ns = "default";
    PutJob("Running");
  }
  ~LogsTest() override {
    if (runner_.joinable()) PutJob("Succeeded"), SetAllEnded();
  }

  void PutJob(const std::string& condition) {
    server_->Put(
        kube::kTfJobs,
        {{"metadata", {{"name", "mine"}, {"namespace", "default"}, {"uid", "j"}}},
         {"status",
          {{"conditions",
            {{{"type", condition}, {"status", "True"}, {"message", "as the test says"}}}}}}});
  }
  void PutPod(const std::string& type, int index, int restarts, bool runs,
              const std::string& uid = "u") {
    const std::string name = absl::StrCat("mine-", type, "-", index);
    const Json state =
        runs ? Json{{"running", Json::object()}} : Json{{"terminated", {{"exitCode", 0}}}};
    pods_[name] = {type, index};
    server_->Put(kube::kPods,
                 {{"metadata",
                   {{"name", name},
                    {"namespace", "default"},
                    {"uid", name + uid},
                    {"labels",
                     {{"training.kubeflow.org/job-name", "mine"},
                      {"training.kubeflow.org/replica-type", type},
                      {"training.kubeflow.org/replica-index", absl::StrCat(index)}}}}},
                  {"status",
                   {{"phase", runs ? "Running" : "Succeeded"},
                    {"containerStatuses",
                     {{{"name", "tensorflow"}, {"restartCount", restarts}, {"state", state}}}}}}});
  }
  void Say(const std::string& pod, const std::string& line) {
    server_->logs().Add("default", "mine-" + pod, line);
  }
  void SetAllEnded() {
    for (const auto& [name, pod] : pods_) {
      server_->logs().End("default", name);
      PutPod(pod.first, pod.second, 0, /*runs=*/false);
    }
  }

  void Start(LogsFlags flags) {
    ASSERT_EQ(pipe(pipe_.data()), 0);
    reader_ = std::jthread([this] {
      std::array<char, 4096> data;
      for (ssize_t size; (size = read(pipe_[0], data.data(), data.size())) > 0;) {
        absl::MutexLock lock(&mutex_);
        text_.append(data.data(), size);
      }
    });
    runner_ = std::jthread([this, flags] {
      code_ = ShowLogs(cluster_, "mine", flags, pipe_[1], err_);
      close(pipe_[1]);
    });
  }
  bool Await(const std::string& part) {
    const auto there = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return text_.find(part) != std::string::npos;
    };
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&there), kLongest);
  }
  // The whole output once the command has ended.
  std::string End() {
    runner_.join();
    reader_.join();
    close(pipe_[0]);
    return text_;
  }
  std::string Show(const LogsFlags& flags) {
    Start(flags);
    return End();
  }

  std::shared_ptr<kube::FakeApiServer> server_ = std::make_shared<kube::FakeApiServer>();
  Cluster cluster_;
  std::map<std::string, std::pair<std::string, int>> pods_;
  std::array<int, 2> pipe_{};
  std::ostringstream err_;
  int code_ = -1;
  absl::Mutex mutex_;
  std::string text_;
  std::jthread reader_, runner_;
};

TEST_F(LogsTest, ShowsAllReplicasInOrderWithPrefixes) {
  for (const char* type : {"worker", "ps"}) {
    PutPod(type, 0, 0, true);
    Say(absl::StrCat(type, "-0"), absl::StrCat("one of ", type));
    Say(absl::StrCat(type, "-0"), absl::StrCat("two of ", type));
  }
  EXPECT_EQ(Show({}),
            "ps-0      | one of ps\nps-0      | two of ps\n"
            "worker-0  | one of worker\nworker-0  | two of worker\n");
  EXPECT_EQ(code_, base::kExitOk);
}

TEST_F(LogsTest, PicksByTypeIndexPodAndTail) {
  for (int i = 0; i < 2; ++i) {
    PutPod("worker", i, 0, true);
    Say(absl::StrCat("worker-", i), "first");
    Say(absl::StrCat("worker-", i), "last");
  }
  PutPod("ps", 0, 0, true);
  Say("ps-0", "first");
  EXPECT_EQ(Show({.type = "Worker", .index = 1}), "worker-1  | first\nworker-1  | last\n");
  text_.clear();
  EXPECT_EQ(Show({.pod = "mine-worker-0", .tail = 1}), "worker-0  | last\n");
  text_.clear();
  EXPECT_EQ(Show({.pod = "worker-7"}), "");
  EXPECT_EQ(code_, base::kExitFailure);
  EXPECT_THAT(err_.str(), HasSubstr("there are mine-ps-0, mine-worker-0, mine-worker-1"));
}

TEST_F(LogsTest, ColoursThePrefixesWhereAsked) {
  PutPod("ps", 0, 0, true);
  Say("ps-0", "hello");
  EXPECT_THAT(Show({.color = "always"}), AllOf(HasSubstr("\033["), HasSubstr("hello")));
}

TEST_F(LogsTest, FollowsOverRestartsNewPodsAndBrokenConnectionsUntilTheEnd) {
  PutPod("worker", 0, 0, true);
  Say("worker-0", "run 1");
  Start({.follow = true});
  ASSERT_TRUE(Await("run 1"));
  // A connection that breaks.
  server_->logs().Cut();
  Say("worker-0", "after the cut");
  ASSERT_TRUE(Await("after the cut"));
  // A container that the kubelet starts anew.
  server_->logs().End("default", "mine-worker-0");
  server_->logs().Restart("default", "mine-worker-0");
  Say("worker-0", "run 2");
  PutPod("worker", 0, 1, true);
  ASSERT_TRUE(Await("run 2"));
  // A pod that is made again under its name.
  server_->logs().End("default", "mine-worker-0");
  server_->logs().Restart("default", "mine-worker-0");
  Say("worker-0", "another pod");
  PutPod("worker", 0, 0, true, "v");
  ASSERT_TRUE(Await("another pod"));
  // A replica that comes later.
  PutPod("ps", 0, 0, true);
  Say("ps-0", "late");
  ASSERT_TRUE(Await("late"));
  PutJob("Succeeded");
  server_->logs().End("default", "mine-worker-0");
  server_->logs().End("default", "mine-ps-0");
  PutPod("worker", 0, 0, false, "v");
  PutPod("ps", 0, 0, false);
  const std::string text = End();
  for (const char* line : {"run 1\n", "after the cut\n", "run 2\n", "another pod\n", "late\n"}) {
    const size_t first = text.find(line);
    EXPECT_NE(first, std::string::npos) << line << text;
    EXPECT_EQ(text.find(line, first + 1), std::string::npos) << line << text;
  }
  EXPECT_THAT(text, HasSubstr("trainyard | TFJob mine: Succeeded"));
  EXPECT_EQ(code_, base::kExitOk);
}

TEST_F(LogsTest, FollowingEndsWithTheJob) {
  PutPod("worker", 0, 0, true);
  Say("worker-0", "hello");
  Start({.follow = true});
  ASSERT_TRUE(Await("hello"));
  server_->Remove(kube::kTfJobs, "default", "mine");
  server_->logs().End("default", "mine-worker-0");
  EXPECT_THAT(End(), HasSubstr("TFJob mine was deleted"));
}

TEST_F(LogsTest, SaysWhereThereIsNothingYet) {
  EXPECT_EQ(Show({}), "");
  EXPECT_EQ(code_, base::kExitFailure);
  EXPECT_THAT(err_.str(), HasSubstr("trainyard describe mine"));
  server_->Put(kube::kPods, {{"metadata",
                              {{"name", "mine-ps-0"},
                               {"namespace", "default"},
                               {"labels",
                                {{"training.kubeflow.org/job-name", "mine"},
                                 {"training.kubeflow.org/replica-type", "ps"},
                                 {"training.kubeflow.org/replica-index", "0"}}}}},
                             {"status", {{"phase", "Pending"}}}});
  text_.clear();
  EXPECT_EQ(Show({}), "trainyard | ps-0 has no log yet: Pending\n");
}

}  // namespace
}  // namespace tfjob
