#include "trainer/train/remote_step.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "base/random_id.h"
#include "base/status_macros.h"
#include "trainer/train/task_client.h"

namespace trainer {
namespace {

// Steps per call: so many that calls cost nothing, so few that lines and checkpoints come in time.
constexpr int64_t kMaxSteps = 10000;
constexpr absl::Duration kSlice = absl::Milliseconds(100);
constexpr absl::Duration kRetryEvery = absl::Seconds(1);
constexpr absl::Duration kLogEvery = absl::Seconds(10);
constexpr absl::Duration kEndTimeout = absl::Seconds(2);
// No step for so long: perhaps a parameter server was restarted and waits for its chief.
constexpr absl::Duration kRepairAfter = absl::Seconds(3);
// The client's copy of the variables is for summaries and lines only; small ones (a line's weight
// and bias) are printed often.
constexpr absl::Duration kRefreshEvery = absl::Seconds(10);
constexpr absl::Duration kRefreshSmallEvery = absl::Milliseconds(200);
constexpr size_t kSmallModel = 4096;
// How long the other workers may take to see that the last step is reached.
constexpr absl::Duration kFinishTimeout = absl::Seconds(10);

// A worker as the client sees it.
struct Worker {
  enum class State {
    kAway,      // no session: to be tried again at `retry`
    kStarting,  // StartSession is under way
    kIdle,      // has a session, is to be given steps
    kRunning,   // RunSteps is under way
  };
  std::string name, address;
  std::unique_ptr<rpc::TaskService::Stub> stub;
  State state = State::kAway;
  absl::Time retry = absl::InfinitePast();
  bool was_there = false;

  // Of the call under way.
  std::unique_ptr<grpc::ClientContext> context;
  rpc::StartSessionRequest start;
  rpc::StartSessionResponse started;
  rpc::RunStepsRequest run;
  rpc::RunStepsResponse done;

  bool calling() const { return state == State::kStarting || state == State::kRunning; }
};

// Calls that have ended, for the one thread that waits for them.
class Mailbox {
 public:
  using Letter = std::pair<int, grpc::Status>;  // worker, how its call ended

  void Put(int worker, const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    letters_.emplace_back(worker, status);
    arrived_.notify_one();
  }
  // Empty after `timeout` or when stopped.
  std::vector<Letter> Take(absl::Duration timeout, std::stop_token stop) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, stop, absl::ToChronoNanoseconds(timeout),
                      [this] { return !letters_.empty(); });
    return std::exchange(letters_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any arrived_;
  std::vector<Letter> letters_;
};

// Errors that another try, or the worker's return, may cure.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status) || absl::IsAborted(status) || absl::IsNotFound(status);
}

class RemoteStep final : public TrainStep {
 public:
  RemoteStep(const Options& options, const Role& role, TrainStrategy* strategy)
      : strategy_(strategy),
        wait_timeout_(absl::Seconds(options.wait_timeout_secs)),
        session_(base::RandomId()),
        config_path_(options.config) {
    start_.set_session(session_);
    for (const std::string& arg : options.args) start_.add_args(arg);
    for (const std::string& address : role.ps_addresses) start_.add_ps_addresses(address);
    for (const base::Task& task : role.trainers) {
      const std::string address = role.cluster.Address(task);
      start_.add_worker_addresses(address);
      Worker worker{.name = base::TaskName(task), .address = address};
      worker.stub = rpc::TaskService::NewStub(TaskChannel(address, role.tls.get()));
      workers_.push_back(std::move(worker));
    }
  }

  ~RemoteStep() override { End(); }

  absl::StatusOr<StepOutcome> Run(std::stop_token stop) override {
    RETURN_IF_ERROR(Begin());
    while (true) {
      if (stop.stop_requested()) {
        End();
        return absl::CancelledError("stopped");
      }
      if (outcomes_.size() > 1 || (!outcomes_.empty() && !finished_)) return Next();
      if (finished_ && (Calls() == 0 || absl::Now() >= finish_deadline_)) {
        End();
        if (outcomes_.empty()) outcomes_.push_back(last_);
        outcomes_.back().result.finished = true;
        return Next();
      }
      if (!finished_) {
        GiveWork();
        RETURN_IF_ERROR(LookAfterOthers(stop));
      }
      // Every letter is taken in, after an error too: End waits for the calls that have not ended.
      absl::Status ended;
      for (const auto& [index, status] : mailbox_.Take(kSlice, stop)) {
        ended.Update(OnEnd(index, FromGrpc(status)));
      }
      RETURN_IF_ERROR(ended);
    }
  }

  std::span<const float> gradients() const override { return {}; }
  const Batch& batch() const override { return batch_; }

 private:
  absl::Status Begin() {
    if (last_progress_ != absl::InfinitePast()) return absl::OkStatus();
    last_progress_ = last_log_ = last_refresh_ = absl::Now();
    if (config_path_.empty()) return absl::OkStatus();
    // The workers need not see this machine's files.
    std::ifstream file(config_path_);
    std::stringstream content;
    if (!(content << file.rdbuf())) {
      return base::UsageError(absl::StrCat("--config: cannot read ", config_path_));
    }
    start_.set_config(content.str());
    return absl::OkStatus();
  }

  StepOutcome Next() {
    last_ = outcomes_.front();
    outcomes_.pop_front();
    // Workers report in turns; the job's step only grows.
    global_step_ = std::max(global_step_, last_.result.global_step);
    last_.result.global_step = global_step_;
    return last_;
  }

  int64_t Calls() const {
    return std::count_if(workers_.begin(), workers_.end(),
                         [](const Worker& worker) { return worker.calling(); });
  }

  void GiveWork() {
    for (size_t i = 0; i < workers_.size(); ++i) {
      Worker& worker = workers_[i];
      if (worker.state == Worker::State::kAway && absl::Now() >= worker.retry) {
        StartSession(static_cast<int>(i));
      } else if (worker.state == Worker::State::kIdle) {
        RunSteps(static_cast<int>(i));
      }
    }
  }

  grpc::ClientContext* NewContext(Worker& worker, absl::Duration timeout) {
    worker.context = std::make_unique<grpc::ClientContext>();
    worker.context->set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    return worker.context.get();
  }

  void StartSession(int index) {
    Worker& worker = workers_[index];
    worker.state = Worker::State::kStarting;
    worker.start = start_;
    worker.start.set_worker(index);
    worker.stub->async()->StartSession(
        NewContext(worker, wait_timeout_), &worker.start, &worker.started,
        [this, index](const grpc::Status& status) { mailbox_.Put(index, status); });
  }

  // The deadline leaves a step, or the wait for other replicas, as long as all waiting may take; a
  // worker that died or froze is noticed by the connection much sooner.
  void RunSteps(int index) {
    Worker& worker = workers_[index];
    worker.state = Worker::State::kRunning;
    worker.run.set_session(session_);
    worker.run.set_max_steps(kMaxSteps);
    worker.run.set_max_ms(absl::ToInt64Milliseconds(kSlice));
    worker.done.Clear();
    worker.stub->async()->RunSteps(
        NewContext(worker, kSlice + wait_timeout_), &worker.run, &worker.done,
        [this, index](const grpc::Status& status) { mailbox_.Put(index, status); });
  }

  absl::Status OnEnd(int index, const absl::Status& status) {
    Worker& worker = workers_[index];
    const bool started = worker.state == Worker::State::kStarting;
    worker.context.reset();
    if (!status.ok()) return OnFailure(worker, status);
    worker.state = Worker::State::kIdle;
    if (started) {
      base::LogInfo(worker.was_there ? "a worker is back" : "a worker takes part",
                    {{"task", worker.name}, {"step", worker.started.global_step()}});
      worker.was_there = true;
    } else {
      TakeSteps(worker.done);
    }
    return absl::OkStatus();
  }

  absl::Status OnFailure(Worker& worker, const absl::Status& status) {
    const bool was_running = worker.state == Worker::State::kRunning;
    worker.state = Worker::State::kAway;
    worker.retry = absl::Now() + kRetryEvery;
    if (MayPass(status)) {
      if (was_running && !finished_) {
        base::LogWarning("lost a worker; the others go on",
                         {{"task", worker.name}, {"err", WhyUnreachable(status)}});
      }
      why_[worker.name] = WhyUnreachable(status);
      return absl::OkStatus();
    }
    const std::string message =
        absl::StrCat(worker.name, " (", worker.address, "): ", status.message());
    if (absl::IsFailedPrecondition(status) || absl::IsUnimplemented(status)) {
      return base::UsageError(message);
    }
    return absl::Status(status.code(), message);
  }

  void TakeSteps(const rpc::RunStepsResponse& response) {
    for (const rpc::StepDone& step : response.steps()) {
      StepOutcome outcome{.loss = step.loss(), .examples = step.examples()};
      outcome.result = {.global_step = step.global_step(),
                        .dropped = step.dropped(),
                        .staleness = step.staleness()};
      outcomes_.push_back(outcome);
    }
    if (response.steps_size() > 0) last_progress_ = last_log_ = absl::Now();
    if (response.finished() && !finished_) {
      finished_ = true;
      finish_deadline_ = absl::Now() + kFinishTimeout;
    }
  }

  // Between steps: refreshes the client's variables, which repairs the parameter servers where
  // needed; says who is missing, and gives up in the end.
  absl::Status LookAfterOthers(std::stop_token stop) {
    const absl::Time now = absl::Now();
    const absl::Duration waited = now - last_progress_;
    const bool stuck = now - std::max(last_progress_, last_refresh_) >= kRepairAfter;
    const bool small = strategy_->parameters().size() <= kSmallModel;
    if (stuck || now - last_refresh_ >= (small ? kRefreshSmallEvery : kRefreshEvery)) {
      RETURN_IF_ERROR(strategy_->Start(stop).status());
      last_refresh_ = absl::Now();
    }
    if (waited >= wait_timeout_) {
      return base::ClusterError(absl::StrCat("no step was done for ",
                                             absl::FormatDuration(wait_timeout_),
                                             " (--wait_timeout sets how long); ", Missing()));
    }
    if (now - last_log_ >= kLogEvery) {
      last_log_ = now;
      base::LogInfo(absl::StrCat("still waiting for a step, ", absl::ToInt64Seconds(waited), " s; ",
                                 Missing()));
    }
    return absl::OkStatus();
  }

  std::string Missing() const {
    std::vector<std::string> missing;
    for (const Worker& worker : workers_) {
      if (worker.state == Worker::State::kIdle || worker.state == Worker::State::kRunning) continue;
      const auto why = why_.find(worker.name);
      missing.push_back(absl::StrCat(worker.name, " (", worker.address,
                                     why == why_.end() ? "" : absl::StrCat(": ", why->second),
                                     ")"));
    }
    if (missing.empty()) return "every worker is there";
    return absl::StrCat("missing: ", absl::StrJoin(missing, ", "));
  }

  // Gives up the calls under way, then ends all sessions. Calls that were cancelled end at once.
  void End() {
    for (Worker& worker : workers_) {
      if (worker.calling()) worker.context->TryCancel();
    }
    while (Calls() > 0) {
      for (const auto& [index, status] : mailbox_.Take(kSlice, {})) {
        Worker& worker = workers_[index];
        worker.state = Worker::State::kIdle;  // a start that was given up may have begun one, too
        worker.context.reset();
      }
    }
    int ending = 0;
    std::vector<rpc::EndSessionResponse> responses(workers_.size());
    rpc::EndSessionRequest request;
    request.set_session(session_);
    for (size_t i = 0; i < workers_.size(); ++i) {
      Worker& worker = workers_[i];
      if (worker.state != Worker::State::kIdle) continue;
      const int index = static_cast<int>(i);
      worker.stub->async()->EndSession(
          NewContext(worker, kEndTimeout), &request, &responses[i],
          [this, index](const grpc::Status& status) { mailbox_.Put(index, status); });
      worker.state = Worker::State::kAway;
      ++ending;
    }
    while (ending > 0) ending -= static_cast<int>(mailbox_.Take(kSlice, {}).size());
  }

  TrainStrategy* const strategy_;
  const absl::Duration wait_timeout_;
  const uint64_t session_;
  const std::string config_path_;
  rpc::StartSessionRequest start_;  // the same for all but the worker's number
  std::vector<Worker> workers_;
  std::map<std::string, std::string> why_;  // the newest reason why a worker is away
  Mailbox mailbox_;
  std::deque<StepOutcome> outcomes_;  // done and not yet returned
  StepOutcome last_;
  int64_t global_step_ = 0;
  bool finished_ = false;
  absl::Time finish_deadline_;
  absl::Time last_progress_ = absl::InfinitePast();  // a step was done; infinite = not begun
  absl::Time last_log_, last_refresh_;
  const Batch batch_{};  // none: the workers draw their own
};

}  // namespace

std::unique_ptr<TrainStep> MakeRemoteStep(const Options& options, const Role& role,
                                          TrainStrategy* strategy) {
  return std::make_unique<RemoteStep>(options, role, strategy);
}

}  // namespace trainer
