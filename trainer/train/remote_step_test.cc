#include "trainer/train/remote_step.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/exit_codes.h"
#include "trainer/train/task_server.h"
#include "trainer/train/test_ports.h"

namespace trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What the client knows of the parameter servers: only that they can be started again.
class FakeStrategy : public TrainStrategy {
 public:
  absl::StatusOr<StepResult> Start(std::stop_token) override {
    ++starts;
    return StepResult();
  }
  std::span<const float> parameters() const override { return parameters_; }
  std::span<float> gradients() override { return {}; }
  absl::StatusOr<StepResult> Step(std::stop_token) override {
    return absl::UnimplementedError("the client never steps");
  }
  absl::Status Averages(std::span<float>) override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<SavedShard>> Save(const std::string&) override {
    return std::vector<SavedShard>();
  }
  absl::Status Finish() override { return absl::OkStatus(); }

  int starts = 0;

 private:
  std::vector<float> parameters_ = {1.0f, 2.0f};
};

// A standing server whose steps cost nothing. Workers that share a Job push to one global step.
struct Job {
  std::atomic<int64_t> global_step{0};
  int64_t last_step = 100;
};

class FakeWorker : public SessionHost {
 public:
  FakeWorker(int index, Job* job, const std::string& address = "127.0.0.1:0")
      : index_(index), job_(job) {
    auto server =
        TaskServer::Start({.listen_address = address, .task = {"worker", index}, .sessions = this});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", server_->port()); }

  void StartSession(rpc::StartSessionRequest request, std::stop_token,
                    Done<rpc::StartSessionResponse> done) override {
    EXPECT_EQ(request.worker(), index_);
    {
      const std::lock_guard lock(mutex_);
      if (!start_error.ok()) return done(start_error);
      start = request;
      session_ = request.session();
      ++sessions_;
    }
    done(rpc::StartSessionResponse());
  }

  void RunSteps(rpc::RunStepsRequest request, std::stop_token,
                Done<rpc::RunStepsResponse> done) override {
    const std::lock_guard lock(mutex_);
    if (request.session() != session_) return done(absl::NotFoundError("no such session"));
    if (runs_++ == fail_after) {
      if (absl::IsNotFound(run_error)) session_ = 0;
      return done(run_error);
    }
    rpc::RunStepsResponse response;
    for (int i = 0; i < 5 && job_->global_step < job_->last_step; ++i) {
      rpc::StepDone* const step = response.add_steps();
      step->set_global_step(++job_->global_step);
      step->set_loss(0.5f);
      step->set_examples(10);
    }
    response.set_finished(job_->global_step >= job_->last_step);
    done(response);
  }

  void EndSession(rpc::EndSessionRequest, std::stop_token,
                  Done<rpc::EndSessionResponse> done) override {
    {
      const std::lock_guard lock(mutex_);
      if (session_ != 0) ++ended_;
      session_ = 0;
    }
    done(rpc::EndSessionResponse());
  }

  int sessions() const {
    const std::lock_guard lock(mutex_);
    return sessions_;
  }
  int ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

  absl::Status start_error, run_error = absl::UnavailableError("gone");
  int fail_after = -1;  // RunSteps number that fails with run_error
  rpc::StartSessionRequest start;

 private:
  const int index_;
  Job* const job_;
  mutable std::mutex mutex_;
  uint64_t session_ = 0;
  int sessions_ = 0, ended_ = 0, runs_ = 0;
  std::unique_ptr<TaskServer> server_;  // last: it calls the rest until it has ended
};

Role RoleFor(const std::vector<std::string>& workers) {
  Role role;
  role.task = {"client", 0};
  role.ps_addresses = {"ps0:2222"};
  for (size_t i = 0; i < workers.size(); ++i) {
    role.trainers.push_back({"worker", static_cast<int>(i)});
    role.cluster.jobs["worker"][static_cast<int>(i)] = workers[i];
  }
  return role;
}

Options OptionsWith(double wait_timeout_secs) {
  Options options;
  options.args = {"--preset=mnist-mlp"};
  options.wait_timeout_secs = wait_timeout_secs;
  return options;
}

// Runs to the end or the first error; counts the steps and checks that the global step never falls.
absl::Status RunAll(TrainStep& step, int* steps, int64_t* global_step) {
  *steps = 0;
  *global_step = 0;
  while (true) {
    const absl::StatusOr<StepOutcome> outcome = step.Run({});
    if (!outcome.ok()) return outcome.status();
    ++*steps;
    EXPECT_GE(outcome->result.global_step, *global_step);
    *global_step = outcome->result.global_step;
    if (outcome->result.finished) return absl::OkStatus();
  }
}

struct RemoteStepTest : testing::Test {
  Job job;
  FakeStrategy strategy;
  int steps = 0;
  int64_t global_step = 0;
};

TEST_F(RemoteStepTest, ReturnsEveryStepOfEveryWorkerAndEndsTheSessions) {
  FakeWorker one(0, &job), two(1, &job);
  const auto step =
      MakeRemoteStep(OptionsWith(30), RoleFor({one.address(), two.address()}), &strategy);
  EXPECT_TRUE(RunAll(*step, &steps, &global_step).ok());
  EXPECT_EQ(steps, 100);
  EXPECT_EQ(global_step, 100);
  EXPECT_EQ(one.ended(), one.sessions());
  EXPECT_EQ(two.ended(), two.sessions());
}

TEST_F(RemoteStepTest, TellsWorkersTheClientsArgumentsAndTheCluster) {
  FakeWorker one(0, &job);
  const auto step = MakeRemoteStep(OptionsWith(30), RoleFor({one.address()}), &strategy);
  ASSERT_TRUE(step->Run({}).ok());
  EXPECT_THAT(one.start.args(), testing::ElementsAre("--preset=mnist-mlp"));
  EXPECT_THAT(one.start.ps_addresses(), testing::ElementsAre("ps0:2222"));
  EXPECT_THAT(one.start.worker_addresses(), testing::ElementsAre(one.address()));
}

TEST_F(RemoteStepTest, GoesOnWithoutAWorkerThatIsNotThere) {
  const HeldPort nobody;
  FakeWorker one(0, &job);
  const auto step =
      MakeRemoteStep(OptionsWith(30), RoleFor({one.address(), nobody.address()}), &strategy);
  EXPECT_TRUE(RunAll(*step, &steps, &global_step).ok());
  EXPECT_EQ(global_step, 100);
}

TEST_F(RemoteStepTest, GoesOnWhenAWorkerIsLostAndTakesItInAgain) {
  FakeWorker one(0, &job);
  one.fail_after = 3;
  const auto step = MakeRemoteStep(OptionsWith(30), RoleFor({one.address()}), &strategy);
  EXPECT_TRUE(RunAll(*step, &steps, &global_step).ok());
  EXPECT_EQ(steps, 100);
  EXPECT_EQ(one.sessions(), 2);
}

TEST_F(RemoteStepTest, StartsANewSessionWithAWorkerThatWasRestarted) {
  FakeWorker one(0, &job);
  one.fail_after = 3;
  one.run_error = absl::NotFoundError("no such session");
  const auto step = MakeRemoteStep(OptionsWith(30), RoleFor({one.address()}), &strategy);
  EXPECT_TRUE(RunAll(*step, &steps, &global_step).ok());
  EXPECT_EQ(one.sessions(), 2);
}

TEST_F(RemoteStepTest, EndsWithAWorkersOwnErrorAndNamesIt) {
  FakeWorker one(0, &job), two(1, &job);
  job.last_step = 1000000000;
  two.fail_after = 2;
  two.run_error = base::NumericError("loss is NaN");
  const auto step =
      MakeRemoteStep(OptionsWith(30), RoleFor({one.address(), two.address()}), &strategy);
  const absl::Status status = RunAll(*step, &steps, &global_step);
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitNumeric) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("/job:worker/task:1"), HasSubstr("loss is NaN")));
}

TEST_F(RemoteStepTest, SaysHowToStartAWorkerThatIsNoStandingServer) {
  const auto plain = TaskServer::Start({.listen_address = "127.0.0.1:0", .task = {"worker", 0}});
  ASSERT_TRUE(plain.ok());
  const auto step = MakeRemoteStep(
      OptionsWith(30), RoleFor({absl::StrCat("127.0.0.1:", (*plain)->port())}), &strategy);
  const absl::Status status = RunAll(*step, &steps, &global_step);
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitUsage) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("trainer serve"));
}

TEST_F(RemoteStepTest, GivesUpWhenNoStepIsDoneAndNamesTheMissing) {
  const HeldPort nobody;
  FakeWorker one(0, &job);
  one.start_error = absl::UnavailableError("busy with another client's session");
  const auto step =
      MakeRemoteStep(OptionsWith(0.3), RoleFor({one.address(), nobody.address()}), &strategy);
  const absl::Status status = RunAll(*step, &steps, &global_step);
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitCluster) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("/job:worker/task:0"), HasSubstr("busy"),
                    HasSubstr("/job:worker/task:1"), HasSubstr("connection refused")));
}

TEST_F(RemoteStepTest, StopEndsTheSessionsAtOnce) {
  job.last_step = 1000000000;
  FakeWorker one(0, &job);
  const auto step = MakeRemoteStep(OptionsWith(30), RoleFor({one.address()}), &strategy);
  ASSERT_TRUE(step->Run({}).ok());
  std::stop_source stop;
  stop.request_stop();
  const absl::Time start = absl::Now();
  EXPECT_TRUE(absl::IsCancelled(step->Run(stop.get_token()).status()));
  EXPECT_EQ(one.ended(), 1);
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
}

TEST_F(RemoteStepTest, RefreshesTheClientsVariables) {
  job.last_step = 1000000000;
  FakeWorker one(0, &job);
  const auto step = MakeRemoteStep(OptionsWith(30), RoleFor({one.address()}), &strategy);
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (strategy.starts < 2 && absl::Now() < deadline) ASSERT_TRUE(step->Run({}).ok());
  EXPECT_GE(strategy.starts, 2);
}

}  // namespace
}  // namespace trainer
