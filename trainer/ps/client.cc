#include "trainer/ps/client.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/ps/grpc_link.h"
#include "trainer/ps/shared_memory_link.h"
#include "trainer/ps/wire.h"

namespace trainer {
namespace {

constexpr absl::Duration kHeartbeatPeriod = absl::Seconds(1);
constexpr absl::Duration kHeartbeatTimeout = absl::Seconds(3);
constexpr int kMaxMissedHeartbeats = 3;
constexpr absl::Duration kGoodbyeTimeout = absl::Seconds(1);
constexpr absl::Duration kSaveTimeout = absl::Minutes(10);  // files may be slow
constexpr absl::Duration kSaveHold = absl::Seconds(2);
constexpr int kSaveAttempts = 3;
// Shards that move on while they are read are read again; a mixture that remains only makes the
// next gradient stale.
constexpr int kMaxPullRounds = 8;

class PsClientImpl final : public PsClient {
 public:
  explicit PsClientImpl(PsClientOptions options)
      : options_(std::move(options)),
        caller_(ToWire(Caller{options_.task, options_.incarnation})),
        servers_(options_.addresses.size()) {
    const ElementType type =
        options_.wire_dtype == WireDtype::kBf16 ? ElementType::kBf16 : ElementType::kF32;
    for (size_t i = 0; i < servers_.size(); ++i) {
      servers_[i].grpc = GrpcLink::Create(options_.addresses[i], type, options_.tls);
    }
  }

  ~PsClientImpl() override { StopHeartbeats(); }

  int server_count() const override { return static_cast<int>(servers_.size()); }

  std::vector<absl::StatusOr<PsStatus>> GetStatus(absl::Duration timeout) override {
    std::vector<wire::StatusReply> replies(servers_.size());
    const std::vector<absl::Status> statuses =
        CallAll("GetStatus", wire::StatusRequest(), replies, timeout);
    std::vector<absl::StatusOr<PsStatus>> result;
    for (size_t i = 0; i < servers_.size(); ++i) {
      if (!statuses[i].ok()) {
        servers_[i].grpc->Reconnect();
        result.emplace_back(statuses[i]);
        continue;
      }
      result.emplace_back(PsStatus{.state = static_cast<PsState>(replies[i].state()),
                                   .incarnation = replies[i].incarnation(),
                                   .global_step = replies[i].global_step(),
                                   .stale_dropped = replies[i].stale_dropped()});
    }
    return result;
  }

  absl::Status Configure(int server, const JobConfig& config) override {
    wire::ConfigReply reply;
    RETURN_IF_ERROR(CallOne(server, "Configure", ToWire(config, server, server_count()), &reply,
                            options_.call_timeout));
    SetLayout(config);
    std::lock_guard lock(mutex_);
    servers_[server].incarnation = reply.incarnation();
    return absl::OkStatus();
  }

  absl::Status InitializeShard(int server, std::span<const float> parameters,
                               int64_t global_step) override {
    RETURN_IF_ERROR(CheckSize(parameters.size()));
    wire::ExchangeRequest request = Request(server, wire::INITIALIZE);
    request.set_base_step(global_step);
    Link& link = *servers_[server].grpc;
    wire::ExchangeReply reply;
    link.Start(request, parameters, nullptr, absl::Now() + options_.call_timeout);
    return About(server, link.Finish(&reply, {}));
  }

  absl::StatusOr<int64_t> RestoreShard(int server, const std::string& checkpoint_prefix,
                                       int64_t global_step) override {
    wire::RestoreRequest request;
    request.set_prefix(checkpoint_prefix);
    request.set_global_step(global_step);
    wire::RestoreReply reply;
    RETURN_IF_ERROR(CallOne(server, "Restore", request, &reply, kSaveTimeout));
    return reply.global_step();
  }

  absl::Status Attach(const JobConfig& config) override {
    std::vector<wire::ConfigReply> replies(servers_.size());
    const std::vector<absl::Status> statuses =
        CallAll("GetConfig", wire::Empty(), replies, options_.call_timeout);
    for (int i = 0; i < server_count(); ++i) {
      RETURN_IF_ERROR(statuses[i]);
      ASSIGN_OR_RETURN(const JobConfig theirs, FromWire(replies[i].config()));
      RETURN_IF_ERROR(About(i, CheckSameLayout(theirs, config)));
      sync_ = theirs.sync;
    }
    SetLayout(config);
    {
      std::lock_guard lock(mutex_);
      for (int i = 0; i < server_count(); ++i) {
        servers_[i].incarnation = replies[i].incarnation();
        servers_[i].missed_heartbeats = 0;
      }
      lost_ = absl::OkStatus();
      ++attachment_;
    }
    if (options_.same_node) AttachSharedMemory(config);
    if (!heartbeats_.joinable()) {
      heartbeats_ = std::jthread([this](std::stop_token stop) { SendHeartbeats(stop); });
    }
    return absl::OkStatus();
  }

  absl::StatusOr<StepResult> Pull(std::span<float> parameters) override {
    RETURN_IF_ERROR(CheckSize(parameters.size()));
    if (sync_ && server_count() > 1) {
      wire::ExchangeReply lead;
      RETURN_IF_ERROR(ExchangeOne(0, Request(0, wire::PULL), {}, &lead, parameters));
      return PullFollowers(std::move(lead), parameters);
    }
    std::vector<wire::ExchangeReply> replies;
    RETURN_IF_ERROR(ExchangeAll(0, wire::PULL, {}, nullptr, parameters, &replies));
    return ResultOf(replies[0]);
  }

  std::span<float> gradients() override {
    if (flat_ != nullptr) return flat_->gradient();
    filled_ = pool_->Take();  // another one: a call that was given up may go on reading
    return filled_->span();
  }
  std::span<float> variables() override {
    return flat_ != nullptr ? flat_->variables() : std::span<float>();
  }

  absl::StatusOr<StepResult> Exchange(std::span<const float> gradients, int64_t base_step,
                                      std::span<float> parameters, std::stop_token stop) override {
    RETURN_IF_ERROR(CheckSize(gradients.size()));
    RETURN_IF_ERROR(CheckSize(parameters.size()));
    ++sequence_;
    base_step_ = base_step;
    if (sync_) return ExchangeSync(gradients, parameters, stop);
    std::vector<wire::ExchangeReply> replies;
    RETURN_IF_ERROR(ExchangeAll(0, wire::PUSH, gradients, nullptr, parameters, &replies));
    return ResultOf(replies[0]);
  }

  absl::Status PullAverages(std::span<float> averages) override {
    RETURN_IF_ERROR(CheckSize(averages.size()));
    std::vector<wire::ExchangeReply> replies;
    return ExchangeAll(0, wire::AVERAGES, {}, nullptr, averages, &replies);
  }

  absl::StatusOr<std::vector<SavedShard>> SaveShards(const std::string& prefix) override {
    absl::StatusOr<std::vector<uint64_t>> snapshots = TakeSnapshots();
    for (int attempt = 1; absl::IsAborted(snapshots.status()) && attempt < kSaveAttempts;
         ++attempt) {
      snapshots = TakeSnapshots();
    }
    RETURN_IF_ERROR(snapshots.status());
    std::vector<wire::WriteSaveReply> replies(servers_.size());
    std::vector<std::unique_ptr<PendingCall>> calls;
    for (size_t i = 0; i < servers_.size(); ++i) {
      wire::WriteSaveRequest request;
      request.set_save_id((*snapshots)[i]);
      request.set_prefix(prefix);
      calls.push_back(
          servers_[i].grpc->Call("WriteSave", request, &replies[i], absl::Now() + kSaveTimeout));
    }
    std::vector<SavedShard> saved;
    absl::Status result;
    for (int i = 0; i < server_count(); ++i) {
      result.Update(About(i, calls[i]->Wait()));
      saved.push_back({replies[i].global_step(), std::move(*replies[i].mutable_entries())});
    }
    RETURN_IF_ERROR(result);
    return saved;
  }

  void Goodbye() override {
    StopHeartbeats();
    std::vector<wire::Empty> replies(servers_.size());
    CallAll("Goodbye", caller_, replies, kGoodbyeTimeout);
  }

  absl::Status Finish() override {
    StopHeartbeats();
    std::vector<wire::Empty> replies(servers_.size());
    absl::Status result;
    for (const absl::Status& status : CallAll("Finish", caller_, replies, options_.call_timeout)) {
      result.Update(status);
    }
    return result;
  }

  int64_t bytes_sent() const override {
    std::lock_guard lock(mutex_);
    int64_t bytes = dropped_bytes_sent_;
    for (const Server& server : servers_) {
      bytes += server.grpc->bytes_sent();
      if (server.shared_memory) bytes += server.shared_memory->bytes_sent();
    }
    return bytes;
  }

  int64_t bytes_received() const override {
    std::lock_guard lock(mutex_);
    int64_t bytes = dropped_bytes_received_;
    for (const Server& server : servers_) {
      bytes += server.grpc->bytes_received();
      if (server.shared_memory) bytes += server.shared_memory->bytes_received();
    }
    return bytes;
  }

 private:
  struct Server {
    std::unique_ptr<GrpcLink> grpc;
    std::unique_ptr<Link> shared_memory;  // replaced under mutex_; null = gRPC it is
    uint64_t incarnation = 0;             // guarded by mutex_; 0 = not known yet
    int missed_heartbeats = 0;            // guarded by mutex_
  };

  // Says which ps a status is about. A ps that does not answer in time is gone.
  absl::Status About(int server, const absl::Status& status) const {
    if (status.ok()) return status;
    const absl::StatusCode code =
        absl::IsDeadlineExceeded(status) ? absl::StatusCode::kUnavailable : status.code();
    return absl::Status(code, absl::StrCat(base::TaskName({"ps", server}), " (",
                                           options_.addresses[server], "): ", status.message()));
  }

  absl::Status CallOne(int server, const std::string& method,
                       const google::protobuf::MessageLite& request,
                       google::protobuf::MessageLite* reply, absl::Duration timeout) {
    return About(
        server, servers_[server].grpc->Call(method, request, reply, absl::Now() + timeout)->Wait());
  }

  // The same request to every server, at once. Thread-safe.
  template <typename Reply>
  std::vector<absl::Status> CallAll(const std::string& method,
                                    const google::protobuf::MessageLite& request,
                                    std::vector<Reply>& replies, absl::Duration timeout) {
    const absl::Time deadline = absl::Now() + timeout;
    std::vector<std::unique_ptr<PendingCall>> calls;
    for (size_t i = 0; i < servers_.size(); ++i) {
      calls.push_back(servers_[i].grpc->Call(method, request, &replies[i], deadline));
    }
    std::vector<absl::Status> statuses;
    for (size_t i = 0; i < servers_.size(); ++i) {
      statuses.push_back(About(static_cast<int>(i), calls[i]->Wait()));
    }
    return statuses;
  }

  void SetLayout(const JobConfig& config) {
    std::vector<Shard> shards = PlaceVariables(config.variables, server_count(), config.placement);
    parameter_count_ = 0;
    for (size_t i = 0; i < servers_.size(); ++i) {
      parameter_count_ += shards[i].size;
      servers_[i].grpc->SetLayout(std::move(shards[i]));
    }
    filled_.reset();
    pool_ = std::make_unique<BufferPool>(parameter_count_);
  }

  absl::Status CheckSize(size_t size) const {
    if (static_cast<int64_t>(size) == parameter_count_) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("got a buffer of ", size,
                                                      " elements for a model of ", parameter_count_,
                                                      "; Configure or Attach comes first"));
  }

  wire::ExchangeRequest Request(int server, wire::Operation operation) {
    wire::ExchangeRequest request;
    request.set_operation(operation);
    *request.mutable_caller() = caller_;
    request.set_shard(server);
    request.set_sequence(sequence_);
    request.set_base_step(base_step_);
    std::lock_guard lock(mutex_);
    request.set_server_incarnation(servers_[server].incarnation);
    return request;
  }

  SharedBuffer OwnerOf(std::span<const float> gradients) const {
    return filled_ != nullptr && gradients.data() == filled_->span().data() ? filled_ : nullptr;
  }

  Link& link(int server) {
    if (servers_[server].shared_memory) return *servers_[server].shared_memory;
    return *servers_[server].grpc;
  }

  // With every ps that turns out to be on this machine, exchanges go through shared memory.
  void AttachSharedMemory(const JobConfig& config) {
    for (int i = 0; i < server_count(); ++i) DropSharedMemory(i);
    flat_.reset();
    absl::StatusOr<std::vector<std::unique_ptr<SharedMemory>>> created =
        SharedMemory::Create(parameter_count_, server_count());
    if (!created.ok()) {
      base::LogDebug("no shared memory", {{"err", created.status().message()}});
      return;
    }
    std::vector<Shard> shards = PlaceVariables(config.variables, server_count(), config.placement);
    std::vector<std::shared_ptr<SharedMemory>> channels;
    for (auto& channel : *created) channels.push_back(std::move(channel));
    for (int i = 0; i < server_count(); ++i) {
      if (absl::Status status = OfferSharedMemory(i, *channels[i]); !status.ok()) {
        base::LogDebug("no shared memory with this ps",
                       {{"task", base::TaskName({"ps", i})}, {"err", status.message()}});
        continue;
      }
      flat_ = channels[0];
      std::lock_guard lock(mutex_);
      servers_[i].shared_memory = MakeSharedMemoryLink(channels[i], flat_, std::move(shards[i]));
    }
    channels[0]->Unlink();
  }

  absl::Status OfferSharedMemory(int server, SharedMemory& memory) {
    wire::AttachSharedMemoryRequest request;
    *request.mutable_caller() = caller_;
    request.set_server_incarnation(Request(server, wire::PULL).server_incarnation());
    request.set_name(memory.name());
    request.set_nonce(memory.nonce());
    wire::Empty reply;
    RETURN_IF_ERROR(CallOne(server, "AttachSharedMemory", request, &reply, options_.call_timeout));
    // Only now, so that a ps elsewhere costs nothing.
    absl::Status reserved = memory.Reserve();
    if (!reserved.ok()) memory.Close();
    return reserved;
  }

  void DropSharedMemory(int server) {
    std::lock_guard lock(mutex_);
    std::unique_ptr<Link>& link = servers_[server].shared_memory;
    if (!link) return;
    dropped_bytes_sent_ += link->bytes_sent();
    dropped_bytes_received_ += link->bytes_received();
    link.reset();
  }

  static StepResult ResultOf(const wire::ExchangeReply& reply) {
    return {.global_step = reply.version(),
            .dropped = reply.dropped(),
            .finished = reply.finished(),
            .staleness = reply.staleness()};
  }

  // Repeats an exchange once whose connection broke: the server knows a push that it has seen.
  absl::Status FinishOrRetry(int server, const wire::ExchangeRequest& request,
                             std::span<const float> gradients, wire::ExchangeReply* reply,
                             std::span<float> parameters) {
    absl::Status status = link(server).Finish(reply, parameters);
    if (absl::IsUnavailable(status)) {
      DropSharedMemory(server);
      link(server).Start(request, gradients, OwnerOf(gradients),
                         absl::Now() + options_.call_timeout);
      status = link(server).Finish(reply, parameters);
    }
    return About(server, status);
  }

  absl::Status ExchangeOne(int server, const wire::ExchangeRequest& request,
                           std::span<const float> gradients, wire::ExchangeReply* reply,
                           std::span<float> parameters) {
    link(server).Start(request, gradients, OwnerOf(gradients), absl::Now() + options_.call_timeout);
    return FinishOrRetry(server, request, gradients, reply, parameters);
  }

  // The same operation on the servers from `first` on, at once.
  absl::Status ExchangeAll(int first, wire::Operation operation, std::span<const float> gradients,
                           const wire::LeadView* lead, std::span<float> parameters,
                           std::vector<wire::ExchangeReply>* replies) {
    const absl::Time deadline = absl::Now() + options_.call_timeout;
    std::vector<wire::ExchangeRequest> requests;
    for (int i = first; i < server_count(); ++i) {
      requests.push_back(Request(i, operation));
      if (lead) *requests.back().mutable_lead() = *lead;
      link(i).Start(requests.back(), gradients, OwnerOf(gradients), deadline);
    }
    absl::Status result;
    replies->resize(servers_.size());
    for (int i = first; i < server_count(); ++i) {
      result.Update(FinishOrRetry(i, requests[i - first], gradients, &(*replies)[i], parameters));
    }
    return result;
  }

  // Stages the gradient on the other shards, lets shard 0 decide, then brings the others along.
  absl::StatusOr<StepResult> ExchangeSync(std::span<const float> gradients,
                                          std::span<float> parameters, std::stop_token stop) {
    if (server_count() > 1) {
      std::vector<wire::ExchangeReply> staged;
      RETURN_IF_ERROR(ExchangeAll(1, wire::STAGE, gradients, nullptr, {}, &staged));
    }
    wire::ExchangeReply lead;
    RETURN_IF_ERROR(WaitForToken(gradients, &lead, parameters, stop));
    if (server_count() == 1) return ResultOf(lead);
    return PullFollowers(std::move(lead), parameters);
  }

  // Pushes to shard 0, which answers when this worker may compute its next gradient.
  absl::Status WaitForToken(std::span<const float> gradients, wire::ExchangeReply* lead,
                            std::span<float> parameters, std::stop_token stop) {
    const wire::ExchangeRequest request = Request(0, wire::PUSH);
    absl::Status status;
    for (int attempt = 0; attempt < 2; ++attempt) {
      link(0).Start(request, gradients, OwnerOf(gradients), absl::InfiniteFuture());
      {
        std::lock_guard lock(mutex_);
        waiting_ = true;
        wait_start_ = absl::Now();
        next_wait_log_ = wait_start_ + options_.wait_log_period;
        if (!lost_.ok()) link(0).Cancel();
      }
      {
        const std::stop_callback cancel(stop, [this] { link(0).Cancel(); });
        status = link(0).Finish(lead, parameters);
      }
      {
        std::lock_guard lock(mutex_);
        waiting_ = false;
        if (stop.stop_requested() && !status.ok()) {
          return absl::CancelledError("stopped while waiting for other replicas");
        }
        if (!lost_.ok() && !status.ok()) return lost_;
      }
      if (absl::IsCancelled(status)) status = base::ClusterError("broke the wait off");
      if (!absl::IsUnavailable(status)) break;
      DropSharedMemory(0);
    }
    return About(0, status);
  }

  // Brings the other shards to shard 0's version. `lead`: shard 0's answer, its variables are in
  // `parameters`.
  absl::StatusOr<StepResult> PullFollowers(wire::ExchangeReply lead, std::span<float> parameters) {
    StepResult result = ResultOf(lead);
    for (int round = 0; round < kMaxPullRounds; ++round) {
      wire::LeadView view;
      view.set_incarnation(Request(0, wire::PULL).server_incarnation());
      view.set_version(lead.version());
      *view.mutable_commit() = lead.commit();
      std::vector<wire::ExchangeReply> replies;
      RETURN_IF_ERROR(ExchangeAll(1, wire::PULL, {}, &view, parameters, &replies));
      bool same = true;
      for (int i = 1; i < server_count(); ++i) same &= replies[i].version() == lead.version();
      if (same) break;
      RETURN_IF_ERROR(ExchangeOne(0, Request(0, wire::PULL), {}, &lead, parameters));
      result.global_step = lead.version();
      result.finished = lead.finished();
    }
    return result;
  }

  // One version on all shards in sync mode: shard 0 first, which then waits for the others.
  absl::StatusOr<std::vector<uint64_t>> TakeSnapshots() {
    std::vector<uint64_t> ids;
    wire::BeginSaveRequest request;
    request.set_hold_ms(absl::ToInt64Milliseconds(kSaveHold));
    wire::BeginSaveReply lead;
    RETURN_IF_ERROR(CallOne(0, "BeginSave", request, &lead, options_.call_timeout));
    ids.push_back(lead.save_id());
    *request.mutable_lead() = lead.view();
    request.set_hold_ms(0);
    std::vector<wire::BeginSaveReply> replies(servers_.size());
    std::vector<std::unique_ptr<PendingCall>> calls(1);
    for (size_t i = 1; i < servers_.size(); ++i) {
      calls.push_back(servers_[i].grpc->Call("BeginSave", request, &replies[i],
                                             absl::Now() + options_.call_timeout));
    }
    absl::Status result;
    for (int i = 1; i < server_count(); ++i) {
      result.Update(About(i, calls[i]->Wait()));
      ids.push_back(replies[i].save_id());
    }
    RETURN_IF_ERROR(result);
    return ids;
  }

  void StopHeartbeats() {
    heartbeats_.request_stop();
    if (heartbeats_.joinable()) heartbeats_.join();
  }

  void SendHeartbeats(std::stop_token stop) {
    std::mutex mutex;
    std::condition_variable_any condition;
    std::unique_lock lock(mutex);
    while (!condition.wait_for(lock, stop, absl::ToChronoNanoseconds(kHeartbeatPeriod),
                               [&] { return stop.stop_requested(); })) {
      uint64_t attachment = 0;
      {
        std::lock_guard guard(mutex_);
        attachment = attachment_;
      }
      std::vector<wire::StatusReply> replies(servers_.size());
      const auto statuses = CallAll("Heartbeat", caller_, replies, kHeartbeatTimeout);
      std::lock_guard guard(mutex_);
      // Answers from before a new attachment say nothing about it.
      if (attachment == attachment_) NoteHeartbeats(statuses, replies);
    }
  }

  // A wait for other replicas ends when any ps is lost: they may be waiting for this worker to
  // repair it. REQUIRES: mutex_ is held.
  void NoteHeartbeats(const std::vector<absl::Status>& statuses,
                      const std::vector<wire::StatusReply>& replies) {
    lost_ = absl::OkStatus();
    for (int i = 0; i < server_count(); ++i) {
      Server& server = servers_[i];
      server.missed_heartbeats = statuses[i].ok() ? 0 : server.missed_heartbeats + 1;
      if (server.missed_heartbeats >= kMaxMissedHeartbeats) {
        lost_ = absl::UnavailableError(statuses[i].message());
      } else if (statuses[i].ok() && (replies[i].incarnation() != server.incarnation ||
                                      replies[i].state() == static_cast<int>(PsState::kEmpty))) {
        lost_ = About(i, base::ClusterError("was restarted"));
      }
    }
    if (!waiting_) return;
    if (!lost_.ok()) return link(0).Cancel();
    if (const absl::Time now = absl::Now(); now >= next_wait_log_) {
      next_wait_log_ += options_.wait_log_period;
      base::LogInfo(absl::StrCat("still waiting for ", MissingReplicas(replies[0]), ", ",
                                 absl::ToInt64Seconds(now - wait_start_), " s"));
    }
  }

  // Who has pushed nothing to the round that is being gathered.
  std::string MissingReplicas(const wire::StatusReply& reply) const {
    std::vector<std::string> names;
    for (const base::Task& task : options_.trainers) {
      const bool pushed = std::ranges::any_of(
          reply.round(), [&](const wire::Caller& caller) { return FromWire(caller).task == task; });
      if (!pushed) names.push_back(base::TaskName(task));
    }
    const int missing = reply.needed() - reply.round_size();
    return absl::StrCat(missing, missing == 1 ? " more gradient of " : " more gradients of ",
                        absl::StrJoin(names, " or "));
  }

  // Constant.
  const PsClientOptions options_;
  const wire::Caller caller_;

  // Of the exchanging thread.
  bool sync_ = false;
  int64_t parameter_count_ = 0;
  std::unique_ptr<BufferPool> pool_;     // of flat buffers
  std::shared_ptr<FloatBuffer> filled_;  // handed out by gradients()
  // The flat buffers that are shared with the servers on this machine; null = there are none.
  std::shared_ptr<SharedMemory> flat_;
  uint64_t sequence_ = 0;
  int64_t base_step_ = 0;

  mutable std::mutex mutex_;
  int64_t dropped_bytes_sent_ = 0;         // guarded by mutex_: of shared memory given up
  int64_t dropped_bytes_received_ = 0;     // guarded by mutex_
  absl::Time wait_start_, next_wait_log_;  // guarded by mutex_, of the wait below
  bool waiting_ = false;         // guarded by mutex_: shard 0 has yet to give this worker a token
  uint64_t attachment_ = 0;      // guarded by mutex_: counts Attach
  absl::Status lost_;            // guarded by mutex_: why no token can be expected
  std::vector<Server> servers_;  // links synchronise themselves; the rest as said there
  std::jthread heartbeats_;      // last: stops before the rest goes
};

}  // namespace

std::unique_ptr<PsClient> PsClient::Create(const PsClientOptions& options) {
  return std::make_unique<PsClientImpl>(options);
}

}  // namespace trainer
