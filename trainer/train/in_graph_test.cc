#include "trainer/train/in_graph.h"

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/exit_codes.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/cpu/cpu_backend.h"
#include "trainer/data/test_folder.h"
#include "trainer/train/ps_task.h"
#include "trainer/train/task_client.h"
#include "trainer/train/test_ports.h"
#include "trainer/train/wait.h"

namespace trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A whole in-graph cluster as threads: one parameter server, standing workers and a client.
class InGraph : public testing::Test {
 protected:
  static constexpr int kWorkers = 2;

  std::vector<std::string> Args(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"--preset=linear-regression",
                                     absl::StrCat("--ps_hosts=", ports_[kWorkers].address()),
                                     absl::StrCat("--worker_hosts=grpc://", ports_[0].address(),
                                                  ",grpc://", ports_[1].address()),
                                     "--wait_timeout=60", "--progress=none"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  struct Task {
    Options options;
    Role role;
    std::stop_source stop;
    std::future<absl::Status> result;
  };

  template <typename Run>
  void Begin(Task& task, const std::vector<std::string>& more, Run run) {
    auto options = ParseOptions(Args(more));
    ASSERT_TRUE(options.ok()) << options.status();
    task.options = *std::move(options);
    auto role = ResolveRole(task.options, "");
    ASSERT_TRUE(role.ok()) << role.status();
    task.role = *std::move(role);
    task.result = std::async(std::launch::async, [&task, run] {
      return run(task.options, task.role, task.stop.get_token());
    });
  }

  void BeginPs() { Begin(ps_, {"--job_name=ps", "--task_index=0"}, RunPs); }
  void BeginWorker(int index) {
    Begin(workers_[index],
          {"--job_name=worker", absl::StrCat("--task_index=", index), "--exit_when_done"},
          [this](const Options& options, const Role& role, std::stop_token stop) {
            return RunStandingServer(options, role, *backend_, stop);
          });
  }
  void BeginClient(std::vector<std::string> more) {
    more.push_back("--existing_servers");
    Begin(client_, more, [this](const Options& options, const Role& role, std::stop_token stop) {
      return RunInGraphClient(options, role, *backend_, stop);
    });
  }

  static absl::Status Await(Task& task) {
    if (!task.result.valid()) return absl::FailedPreconditionError("never begun");
    if (task.result.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
      return absl::DeadlineExceededError("still running");
    }
    return task.result.get();
  }

  void TearDown() override {
    for (Task* task : {&client_, &workers_[0], &workers_[1], &ps_}) task->stop.request_stop();
    for (Task* task : {&client_, &workers_[0], &workers_[1], &ps_}) {
      if (task->result.valid()) task->result.wait();
    }
  }

  int64_t SavedStep(const std::string& folder) {
    const auto newest = FindNewestComplete(folder);
    return newest.ok() && *newest ? (*newest)->step : -1;
  }

  const std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  HeldPort ports_[kWorkers + 1];
  Task ps_, workers_[kWorkers], client_;
};

TEST_F(InGraph, DrivesItsWorkersToTheLastStepAndEndsEverybody) {
  const TestFolder folder;
  BeginClient({"--train_steps=400", absl::StrCat("--checkpoint_dir=", folder.path())});
  BeginWorker(0);
  BeginPs();
  BeginWorker(1);
  EXPECT_TRUE(Await(client_).ok());
  EXPECT_TRUE(Await(workers_[0]).ok());
  EXPECT_TRUE(Await(workers_[1]).ok());
  EXPECT_TRUE(Await(ps_).ok());
  EXPECT_GE(SavedStep(folder.path()), 400);
}

TEST_F(InGraph, AveragesItsWorkersInSyncMode) {
  const TestFolder folder;
  BeginPs();
  BeginWorker(0);
  BeginWorker(1);
  BeginClient(
      {"--train_steps=200", "--sync_replicas", absl::StrCat("--checkpoint_dir=", folder.path())});
  EXPECT_TRUE(Await(client_).ok());
  EXPECT_TRUE(Await(workers_[0]).ok());
  EXPECT_TRUE(Await(workers_[1]).ok());
  EXPECT_TRUE(Await(ps_).ok());
  EXPECT_EQ(SavedStep(folder.path()), 200);
}

TEST_F(InGraph, EndsASessionWhenTheClientIsStopped) {
  BeginPs();
  BeginWorker(0);
  BeginWorker(1);
  const TestFolder folder;
  BeginClient({"--train_steps=1000000000", "--save_checkpoint_steps=50",
               absl::StrCat("--checkpoint_dir=", folder.path())});
  Waiter saved(absl::Seconds(30), {});
  while (!std::filesystem::exists(folder.path() + "/checkpoint")) {
    ASSERT_TRUE(saved.StillWaitingFor({"a checkpoint"}).ok());
  }
  const absl::Time start = absl::Now();
  client_.stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(Await(client_)));
  EXPECT_TRUE(Await(workers_[0]).ok());
  EXPECT_TRUE(Await(workers_[1]).ok());
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

TEST_F(InGraph, StopsAStandingServer) {
  BeginWorker(0);
  TaskClient client(ports_[0].address());
  Waiter serving(absl::Seconds(20), {});
  while (!client.CheckHealth(absl::Seconds(1)).status.ok()) {
    ASSERT_TRUE(serving.StillWaitingFor({"the standing server"}).ok());
  }
  workers_[0].stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(Await(workers_[0])));
}

TEST_F(InGraph, RefusesClientsWithoutServersToDrive) {
  Options options;
  options.existing_servers = true;
  Role role;
  role.task = {"client", 0};
  const absl::Status status = RunInGraphClient(options, role, *backend_, {});
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitUsage);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("--ps_hosts"), HasSubstr("--worker_hosts")));
}

TEST_F(InGraph, ServesOnlyWithAnAddress) {
  const absl::Status status = RunStandingServer({}, {}, *backend_, {});
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitUsage);
}

}  // namespace
}  // namespace trainer
