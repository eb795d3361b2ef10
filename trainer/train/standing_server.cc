// The worker's side of in-graph training: calls come on gRPC's threads and are done one after
// another on the thread that called RunStandingServer, since a session has one model and one stream
// of batches.
#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/train/in_graph.h"
#include "trainer/train/settings.h"
#include "trainer/train/task_server.h"
#include "trainer/train/train.h"
#include "trainer/train/train_step.h"

namespace trainer {
namespace {

// A client that has said nothing for so long is taken for dead: its session makes room.
constexpr absl::Duration kSessionLease = absl::Seconds(20);

// Text as a file that lives as long as this object, for a reader that wants a path.
class TextFile {
 public:
  static absl::StatusOr<TextFile> Create(const std::string& text) {
    TextFile file;
    file.descriptor_ = memfd_create("config", MFD_CLOEXEC);
    if (file.descriptor_ < 0 ||
        write(file.descriptor_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      return absl::ResourceExhaustedError("no memory for the client's --config");
    }
    return file;
  }
  TextFile(TextFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  TextFile& operator=(TextFile&&) = delete;
  ~TextFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  std::string path() const { return absl::StrCat("/proc/self/fd/", descriptor_); }

 private:
  TextFile() = default;
  int descriptor_ = -1;
};

// One client's training on this worker.
struct Session {
  uint64_t id = 0;
  absl::Time last_used;
  Options options;
  Role role;
  Settings settings;
  std::shared_ptr<DataSource> data;
  std::unique_ptr<Input> input;
  std::unique_ptr<TrainStrategy> strategy;
  std::unique_ptr<TrainStep> step;
  StepResult at;
};

// Tells of a stop of the process or of the call, whichever comes first.
class EitherStop {
 public:
  EitherStop(std::stop_token one, std::stop_token other)
      : one_(std::move(one), Request{&source_}), other_(std::move(other), Request{&source_}) {}
  std::stop_token token() const { return source_.get_token(); }

 private:
  struct Request {
    std::stop_source* source;
    void operator()() const { source->request_stop(); }
  };
  std::stop_source source_;
  std::stop_callback<Request> one_, other_;
};

class StandingServer final : public SessionHost {
 public:
  StandingServer(const Options& options, const Role& role, Backend& backend, std::stop_token stop)
      : own_options_(options),
        task_(role.task),
        tls_(role.tls),
        backend_(backend),
        stop_(std::move(stop)) {}

  // Any thread.
  void StartSession(rpc::StartSessionRequest request, std::stop_token cancelled,
                    Done<rpc::StartSessionResponse> done) override {
    Enqueue(std::move(cancelled), std::move(done),
            [this, request = std::move(request)](std::stop_token stop) {
              return Start(request, std::move(stop));
            });
  }
  void RunSteps(rpc::RunStepsRequest request, std::stop_token cancelled,
                Done<rpc::RunStepsResponse> done) override {
    Enqueue(std::move(cancelled), std::move(done),
            [this, request = std::move(request)](std::stop_token stop) {
              return Run(request, std::move(stop));
            });
  }
  void EndSession(rpc::EndSessionRequest request, std::stop_token cancelled,
                  Done<rpc::EndSessionResponse> done) override {
    Enqueue(std::move(cancelled), std::move(done),
            [this, request = std::move(request)](std::stop_token) { return End(request); });
  }

  // Does the calls until stopped, or done with --exit_when_done.
  absl::Status Serve() {
    while (!stop_.stop_requested() && !(ended_ && own_options_.exit_when_done)) {
      if (const auto call = NextCall(absl::Seconds(1))) (*call)(true);
      if (session_ != nullptr && absl::Now() - session_->last_used > kSessionLease) {
        base::LogWarning("the in-graph client is silent; its session is closed",
                         {{"task", base::TaskName(task_)}, {"step", session_->at.global_step}});
        CloseSession();
      }
    }
    CloseSession();
    Refuse();
    if (ended_ && own_options_.exit_when_done) return absl::OkStatus();
    return absl::CancelledError("stopped");
  }

 private:
  using Call = std::function<void(bool serve)>;

  template <typename Response, typename Body>
  void Enqueue(std::stop_token cancelled, Done<Response> done, Body body) {
    Call call = [this, cancelled = std::move(cancelled), done = std::move(done),
                 body = std::move(body)](bool serve) {
      if (!serve) return done(absl::UnavailableError("this worker is ending"));
      if (cancelled.stop_requested()) return done(absl::CancelledError("the client gave up"));
      const EitherStop stop(stop_, cancelled);
      done(body(stop.token()));
    };
    {
      const std::lock_guard lock(mutex_);
      if (!closed_) {
        calls_.push_back(std::move(call));
        arrived_.notify_one();
        return;
      }
    }
    call(false);
  }

  std::optional<Call> NextCall(absl::Duration timeout) {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, stop_, absl::ToChronoNanoseconds(timeout),
                           [this] { return !calls_.empty(); })) {
      return std::nullopt;
    }
    Call call = std::move(calls_.front());
    calls_.pop_front();
    return call;
  }

  // Answers those who wait and those who still come.
  void Refuse() {
    std::deque<Call> calls;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      calls.swap(calls_);
    }
    for (const Call& call : calls) call(false);
  }

  absl::StatusOr<rpc::StartSessionResponse> Start(const rpc::StartSessionRequest& request,
                                                  std::stop_token stop) {
    if (session_ != nullptr && session_->id != request.session() &&
        absl::Now() - session_->last_used < kSessionLease / 2) {
      return base::ClusterError("busy with another client's session");
    }
    CloseSession();
    auto session = std::make_unique<Session>();
    session->id = request.session();
    ASSIGN_OR_RETURN(session->options, SessionOptions(request));
    ASSIGN_OR_RETURN(const TextFile config, TextFile::Create(request.config()));
    if (!request.config().empty()) session->options.config = config.path();
    ASSIGN_OR_RETURN(session->role, SessionRole(request, session->options));
    session->role.tls = tls_;
    RETURN_IF_ERROR(Build(*session));
    ASSIGN_OR_RETURN(session->at, session->strategy->Start(stop));
    session->last_used = absl::Now();
    session_ = std::move(session);
    base::LogInfo("session begins", {{"task", base::TaskName(session_->role.task)},
                                     {"step", session_->at.global_step}});
    rpc::StartSessionResponse response;
    response.set_global_step(session_->at.global_step);
    response.set_examples_per_epoch(session_->input->examples_per_epoch());
    return response;
  }

  // The client's settings; what belongs to this machine is this server's own.
  absl::StatusOr<Options> SessionOptions(const rpc::StartSessionRequest& request) const {
    ASSIGN_OR_RETURN(Options options, ParseOptions({request.args().begin(), request.args().end()}));
    options.num_threads = own_options_.num_threads;
    if (!own_options_.data_dir.empty()) options.data_dir = own_options_.data_dir;
    options.same_node = options.same_node && own_options_.same_node;
    options.existing_servers = false;
    return options;
  }

  static absl::StatusOr<Role> SessionRole(const rpc::StartSessionRequest& request,
                                          const Options& options) {
    const int workers = request.worker_addresses_size();
    if (request.ps_addresses().empty() || request.worker() < 0 || request.worker() >= workers) {
      return base::UsageError(absl::StrCat("a session for worker ", request.worker(), " of ",
                                           workers, " with ", request.ps_addresses_size(),
                                           " parameter servers"));
    }
    Role role;
    for (int i = 0; i < request.ps_addresses_size(); ++i) {
      role.ps_addresses.push_back(request.ps_addresses(i));
      role.cluster.jobs["ps"][i] = request.ps_addresses(i);
    }
    for (int i = 0; i < workers; ++i) {
      role.trainers.push_back({"worker", i});
      role.cluster.jobs["worker"][i] = request.worker_addresses(i);
    }
    role.task = {"worker", request.worker()};
    role.rank = request.worker();
    role.chief = false;
    role.strategy = options.sync_replicas ? Strategy::kSync : Strategy::kAsync;
    return role;
  }

  absl::Status Build(Session& session) {
    const Options& options = session.options;
    ASSIGN_OR_RETURN(session.settings, ResolveSettings(options));
    ASSIGN_OR_RETURN(session.data, OpenTrainingData(options, session.settings));
    ASSIGN_OR_RETURN(session.input,
                     OpenInput(options, session.settings, *session.data, session.role.rank,
                               static_cast<int>(session.role.trainers.size())));
    ResolveSteps(options, session.input->examples_per_epoch(), session.settings);
    ASSIGN_OR_RETURN(session.strategy,
                     MakeStrategy(options, session.settings, session.role, nullptr, stop_));
    ASSIGN_OR_RETURN(session.step, TrainStep::Create(options, session.settings, backend_,
                                                     session.input.get(), session.strategy.get()));
    return absl::OkStatus();
  }

  absl::StatusOr<rpc::RunStepsResponse> Run(const rpc::RunStepsRequest& request,
                                            std::stop_token stop) {
    if (session_ == nullptr || session_->id != request.session()) {
      return absl::NotFoundError("no such session: this worker was restarted or gave it up");
    }
    rpc::RunStepsResponse response;
    const absl::Time deadline = absl::Now() + absl::Milliseconds(request.max_ms());
    while (!session_->at.finished && response.steps_size() < request.max_steps() &&
           (response.steps_size() == 0 || absl::Now() < deadline)) {
      const absl::StatusOr<StepOutcome> outcome = session_->step->Run(stop);
      session_->last_used = absl::Now();
      RETURN_IF_ERROR(outcome.status());
      session_->at = outcome->result;
      rpc::StepDone* const step = response.add_steps();
      step->set_loss(outcome->loss);
      step->set_global_step(outcome->result.global_step);
      step->set_examples(outcome->examples);
      step->set_staleness(outcome->result.staleness);
      step->set_dropped(outcome->result.dropped);
    }
    response.set_finished(session_->at.finished);
    return response;
  }

  absl::StatusOr<rpc::EndSessionResponse> End(const rpc::EndSessionRequest& request) {
    if (session_ != nullptr && session_->id == request.session()) {
      base::LogInfo("session ends", {{"task", base::TaskName(session_->role.task)},
                                     {"step", session_->at.global_step}});
      CloseSession();
      ended_ = true;
    }
    return rpc::EndSessionResponse();
  }

  void CloseSession() {
    if (session_ == nullptr) return;
    (void)session_->strategy->Finish();  // the parameter servers may have ended already
    session_.reset();
  }

  const Options own_options_;
  const base::Task task_;
  const std::shared_ptr<const TaskTls> tls_;
  Backend& backend_;
  const std::stop_token stop_;
  std::unique_ptr<Session> session_;  // of the serving thread, as is the next
  bool ended_ = false;

  std::mutex mutex_;
  std::condition_variable_any arrived_;
  std::deque<Call> calls_;  // guarded by mutex_
  bool closed_ = false;     // guarded by mutex_
};

}  // namespace

absl::Status RunStandingServer(const Options& options, const Role& role, Backend& backend,
                               std::stop_token stop) {
  if (role.address.empty()) {
    return base::UsageError(
        "serve: which address? Give --worker_hosts and --task_index, or TF_CONFIG");
  }
  StandingServer host(options, role, backend, stop);
  ASSIGN_OR_RETURN(const std::unique_ptr<TaskServer> server,
                   TaskServer::Start({.listen_address = ListenAddress(role.address),
                                      .task = role.task,
                                      .tls = role.tls,
                                      .sessions = &host}));
  base::LogInfo("standing server listens",
                {{"task", base::TaskName(role.task)}, {"address", role.address}});
  return host.Serve();
}

}  // namespace trainer
