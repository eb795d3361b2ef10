// The parameter server's gRPC face. Reactions never block: arithmetic runs where the message
// arrives, files are read and written on a background thread, waits are kept in the store.
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "base/random_id.h"
#include "base/status_macros.h"
#include "trainer/ps/background.h"
#include "trainer/ps/exchange_handler.h"
#include "trainer/ps/message.h"
#include "trainer/ps/param_server.grpc.pb.h"
#include "trainer/ps/server.h"
#include "trainer/ps/shared_memory_sessions.h"
#include "trainer/ps/wire.h"

namespace trainer {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// A snapshot that nobody writes is forgotten when this many newer ones exist.
constexpr size_t kMaxSnapshots = 2;
constexpr absl::Duration kMaxHold = absl::Seconds(5);
constexpr absl::Duration kShutdownGrace = absl::Milliseconds(500);

struct Counters {
  std::atomic<int64_t> received = 0;
  std::atomic<int64_t> sent = 0;
};

// One Exchange. Deletes itself when gRPC is done with it.
class ExchangeReactor final : public ServerUnaryReactor {
 public:
  ExchangeReactor(ExchangeHandler* handler, Counters* counters, grpc::ByteBuffer* response)
      : handler_(handler), counters_(counters), response_(response) {}

  void Run(const grpc::ByteBuffer& message) {
    ReceivedPayload payload;
    absl::Status status = payload.Parse(message, request_);
    if (!status.ok()) return Finish(ToGrpc(status));
    counters_->received += payload.bytes();
    absl::StatusOr<BytesSource> elements = payload.Elements(FromWire(request_.element_type()));
    if (!elements.ok()) return Finish(ToGrpc(elements.status()));
    handler_->Handle(request_, *elements,
                     [this](absl::Status result, wire::ExchangeReply reply, SharedBuffer values) {
                       Answer(result, reply, values);
                     });
  }

  void OnCancel() override { handler_->Cancel(request_); }
  void OnDone() override { delete this; }

 private:
  void Answer(const absl::Status& status, const wire::ExchangeReply& reply,
              const SharedBuffer& values) {
    if (!status.ok()) return Finish(ToGrpc(status));
    const ElementType type = FromWire(reply.element_type());
    if (values != nullptr) counters_->sent += values->size() * ElementSize(type);
    *response_ = MakeMessage(reply, values, type);
    Finish(grpc::Status::OK);
  }

  ExchangeHandler* const handler_;
  Counters* const counters_;
  grpc::ByteBuffer* const response_;
  wire::ExchangeRequest request_;
};

using GeneratedService =
    wire::ParameterServer::WithRawCallbackMethod_Exchange<wire::ParameterServer::CallbackService>;

class PsServerImpl final : public PsServer, private GeneratedService {
 public:
  explicit PsServerImpl(PsServerOptions options)
      : options_(std::move(options)),
        incarnation_(base::RandomId()),
        store_(options_.shard, options_.shard_count, options_.worker_lease),
        handler_(&store_, clock_, incarnation_, options_.shard) {}

  ~PsServerImpl() override { Shutdown(); }

  absl::Status Listen() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(options_.listen_address, MakeServerCredentials(options_.tls.get()),
                             &port_);
    // Two servers on one port would share its connections in silence.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(-1);
    builder.SetMaxSendMessageSize(-1);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) {
      server_.reset();
      return base::UsageError(
          absl::StrCat("cannot listen on ", options_.listen_address,
                       ": the address is in use by another process or is not one of this machine"));
    }
    timer_ = std::jthread([this](std::stop_token stop) { RunTimer(stop); });
    return absl::OkStatus();
  }

  int port() const override { return port_; }

  PsStats stats() const override {
    const PsStatus status = store_.status();
    return {.state = status.state,
            .global_step = status.global_step,
            .pushes = store_.pushes(),
            .stale_dropped = status.stale_dropped,
            .live_workers = store_.live_workers(),
            .parameter_bytes = store_.parameter_bytes(),
            .bytes_received = counters_.received + sessions_.bytes_received(),
            .bytes_sent = counters_.sent + sessions_.bytes_sent()};
  }

  bool WaitUntilFinished(absl::Duration deadline) override {
    const absl::Time give_up = absl::Now() + deadline;
    std::unique_lock lock(finish_mutex_);
    while (true) {
      const absl::Time now = absl::Now();
      const absl::Time end = finished_at_ + options_.finish_linger;
      if (now >= end || (finished_at_ < absl::InfiniteFuture() && store_.live_workers() == 0)) {
        return true;
      }
      if (now >= give_up) return false;
      finish_changed_.wait_until(lock, absl::ToChronoTime(std::min(end, give_up)));
    }
  }

  void Shutdown() override {
    if (server_ == nullptr) return;
    store_.Close(base::ClusterError("is shutting down"));
    sessions_.CloseAll();
    server_->Shutdown(absl::ToChronoTime(absl::Now() + kShutdownGrace));
    server_->Wait();
    timer_ = {};
    server_.reset();
  }

 private:
  // Data.

  ServerUnaryReactor* Exchange(CallbackServerContext*, const grpc::ByteBuffer* request,
                               grpc::ByteBuffer* response) override {
    auto* const reactor = new ExchangeReactor(&handler_, &counters_, response);
    reactor->Run(*request);
    // The gradient is in the store now. gRPC would keep the message until the answer is sent, which
    // in sync mode may be long after.
    const_cast<grpc::ByteBuffer*>(request)->Clear();
    return reactor;
  }

  // Control.

  static ServerUnaryReactor* Done(CallbackServerContext* context, const absl::Status& status) {
    ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(ToGrpc(status));
    return reactor;
  }

  void FillStatus(wire::StatusReply* reply) const {
    const PsStatus status = store_.status();
    reply->set_state(static_cast<int>(status.state));
    reply->set_incarnation(incarnation_);
    reply->set_global_step(status.global_step);
    reply->set_stale_dropped(status.stale_dropped);
    for (const base::Task& task : status.round) *reply->add_round() = ToWire(Caller{task, 0});
    reply->set_needed(status.round_size);
  }

  ServerUnaryReactor* GetStatus(CallbackServerContext* context, const wire::StatusRequest*,
                                wire::StatusReply* reply) override {
    FillStatus(reply);
    return Done(context, absl::OkStatus());
  }

  ServerUnaryReactor* Heartbeat(CallbackServerContext* context, const wire::Caller* caller,
                                wire::StatusReply* reply) override {
    FillStatus(reply);
    return Done(context, store_.Heartbeat(FromWire(*caller), clock_->Now()));
  }

  ServerUnaryReactor* GetConfig(CallbackServerContext* context, const wire::Empty*,
                                wire::ConfigReply* reply) override {
    const std::shared_ptr<const JobConfig> config = store_.config();
    if (config == nullptr) return Done(context, base::ClusterError("has no variables yet"));
    reply->set_incarnation(incarnation_);
    *reply->mutable_config() = ToWire(*config, options_.shard, options_.shard_count);
    return Done(context, absl::OkStatus());
  }

  ServerUnaryReactor* Configure(CallbackServerContext* context, const wire::JobConfig* request,
                                wire::ConfigReply* reply) override {
    reply->set_incarnation(incarnation_);
    return Done(context, ConfigureStore(*request));
  }

  absl::Status ConfigureStore(const wire::JobConfig& request) {
    if (request.shard() != options_.shard || request.shard_count() != options_.shard_count) {
      return base::UsageError(absl::StrCat(
          "is ps task ", options_.shard, " of ", options_.shard_count,
          ", but the chief takes it for task ", request.shard(), " of ", request.shard_count(),
          "; list the same ps addresses in the same order everywhere"));
    }
    ASSIGN_OR_RETURN(JobConfig config, FromWire(request));
    RETURN_IF_ERROR(store_.Configure(std::move(config)));
    base::LogInfo("configured by the chief",
                  {{"shard", options_.shard}, {"bytes", store_.parameter_bytes()}});
    return absl::OkStatus();
  }

  ServerUnaryReactor* Restore(CallbackServerContext* context, const wire::RestoreRequest* request,
                              wire::RestoreReply* reply) override {
    ServerUnaryReactor* const reactor = context->DefaultReactor();
    background_.Add([=, this] {
      const absl::StatusOr<int64_t> step = RestoreStore(request->prefix(), request->global_step());
      if (step.ok()) reply->set_global_step(*step);
      reactor->Finish(ToGrpc(step.status()));
    });
    return reactor;
  }

  absl::StatusOr<int64_t> RestoreStore(const std::string& prefix, int64_t global_step) {
    if (!options_.reader) return base::UsageError("cannot read checkpoints");
    ASSIGN_OR_RETURN(ShardState wanted, store_.Describe());
    ASSIGN_OR_RETURN(const ShardState state, options_.reader(prefix, std::move(wanted)));
    const int64_t step = global_step >= 0 ? global_step : state.global_step;
    RETURN_IF_ERROR(store_.Load(state, step, clock_->Now()));
    return step;
  }

  ServerUnaryReactor* BeginSave(CallbackServerContext* context,
                                const wire::BeginSaveRequest* request,
                                wire::BeginSaveReply* reply) override {
    std::optional<LeadView> lead;
    if (request->has_lead()) lead = FromWire(request->lead());
    const absl::Duration hold = std::min(absl::Milliseconds(request->hold_ms()), kMaxHold);
    absl::StatusOr<Snapshot> snapshot = store_.TakeSnapshot(lead, clock_->Now() + hold);
    if (!snapshot.ok()) return Done(context, snapshot.status());
    ToWire(LeadView{incarnation_, snapshot->version, snapshot->commit}, reply->mutable_view());
    std::lock_guard lock(snapshots_mutex_);
    reply->set_save_id(++last_save_id_);
    snapshots_.emplace(last_save_id_, *std::move(snapshot));
    if (snapshots_.size() > kMaxSnapshots) snapshots_.erase(snapshots_.begin());
    return Done(context, absl::OkStatus());
  }

  ServerUnaryReactor* WriteSave(CallbackServerContext* context,
                                const wire::WriteSaveRequest* request,
                                wire::WriteSaveReply* reply) override {
    store_.ReleaseHold(clock_->Now());
    ServerUnaryReactor* const reactor = context->DefaultReactor();
    background_.Add([=, this] { reactor->Finish(ToGrpc(WriteSnapshot(*request, reply))); });
    return reactor;
  }

  absl::Status WriteSnapshot(const wire::WriteSaveRequest& request, wire::WriteSaveReply* reply) {
    if (!options_.writer) return base::UsageError("cannot write checkpoints");
    Snapshot snapshot;
    {
      std::lock_guard lock(snapshots_mutex_);
      const auto it = snapshots_.find(request.save_id());
      if (it == snapshots_.end()) return absl::AbortedError("a later checkpoint took its place");
      snapshot = std::move(it->second);
      snapshots_.erase(it);
    }
    ASSIGN_OR_RETURN(std::string entries, options_.writer(snapshot.State(), request.prefix(),
                                                          options_.shard, options_.shard_count));
    reply->set_global_step(snapshot.version);
    reply->set_entries(std::move(entries));
    return absl::OkStatus();
  }

  ServerUnaryReactor* Goodbye(CallbackServerContext* context, const wire::Caller* caller,
                              wire::Empty*) override {
    store_.Leave(FromWire(*caller), clock_->Now());
    NotifyFinishWaiters();
    return Done(context, absl::OkStatus());
  }

  ServerUnaryReactor* Finish(CallbackServerContext* context, const wire::Caller* caller,
                             wire::Empty*) override {
    store_.Finish();
    store_.Leave(FromWire(*caller), clock_->Now());
    {
      std::lock_guard lock(finish_mutex_);
      finished_at_ = std::min(finished_at_, absl::Now());
    }
    NotifyFinishWaiters();
    return Done(context, absl::OkStatus());
  }

  ServerUnaryReactor* AttachSharedMemory(CallbackServerContext* context,
                                         const wire::AttachSharedMemoryRequest* request,
                                         wire::Empty*) override {
    return Done(context, OpenSession(*request));
  }

  absl::Status OpenSession(const wire::AttachSharedMemoryRequest& request) {
    if (!options_.same_node) return absl::FailedPreconditionError("takes no shared memory");
    RETURN_IF_ERROR(handler_.CheckIncarnation(request.server_incarnation()));
    ASSIGN_OR_RETURN(std::unique_ptr<SharedMemory> memory,
                     SharedMemory::Open(request.name(), request.nonce(), options_.shard));
    const std::shared_ptr<const JobConfig> config = store_.config();
    if (config == nullptr) return base::ClusterError("has no variables yet");
    return sessions_.Add(
        FromWire(request.caller()), std::move(memory),
        PlaceVariables(config->variables, options_.shard_count, config->placement)[options_.shard]);
  }

  // A dead process needs no lease.
  void LoseWorker(const Caller& caller) {
    base::LogWarning("lost a worker: its process died", {{"task", base::TaskName(caller.task)}});
    store_.Leave(caller, clock_->Now());
    NotifyFinishWaiters();
  }

  // Taking the mutex closes the gap between a waiter's look and its wait.
  void NotifyFinishWaiters() {
    {
      std::lock_guard lock(finish_mutex_);
    }
    finish_changed_.notify_all();
  }

  void RunTimer(std::stop_token stop) {
    const absl::Duration period =
        std::clamp(options_.worker_lease / 8, absl::Milliseconds(10), absl::Milliseconds(500));
    std::mutex mutex;
    std::condition_variable_any condition;
    std::unique_lock lock(mutex);
    while (!condition.wait_for(lock, stop, absl::ToChronoNanoseconds(period),
                               [&] { return stop.stop_requested(); })) {
      for (const base::Task& task : store_.Tick(clock_->Now())) {
        base::LogWarning("lost a worker: it was silent for longer than its lease",
                         {{"task", base::TaskName(task)}});
        NotifyFinishWaiters();
      }
    }
  }

  // Constant.
  const PsServerOptions options_;
  base::Clock* const clock_ = base::Clock::Real();
  const uint64_t incarnation_;
  int port_ = 0;

  // Own synchronisation.
  Counters counters_;
  Store store_;
  ExchangeHandler handler_;
  SharedMemorySessions sessions_{&handler_, [this](const Caller& lost) { LoseWorker(lost); }};
  Background background_;
  std::unique_ptr<grpc::Server> server_;
  std::jthread timer_;

  std::mutex snapshots_mutex_;
  std::map<uint64_t, Snapshot> snapshots_;  // guarded by snapshots_mutex_
  uint64_t last_save_id_ = 0;               // guarded by snapshots_mutex_

  std::mutex finish_mutex_;
  std::condition_variable finish_changed_;
  absl::Time finished_at_ = absl::InfiniteFuture();  // guarded by finish_mutex_
};

}  // namespace

absl::StatusOr<std::unique_ptr<PsServer>> PsServer::Start(const PsServerOptions& options) {
  if (options.shard < 0 || options.shard >= options.shard_count) {
    return base::UsageError(
        absl::StrCat("ps task ", options.shard, " is not one of ", options.shard_count));
  }
  auto server = std::make_unique<PsServerImpl>(options);
  RETURN_IF_ERROR(server->Listen());
  return server;
}

}  // namespace trainer
