#include "trainer/ps/store.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"

namespace trainer {
namespace {

// The sum of equally long buffers, added up in their order so that every shard rounds alike.
class SumSource final : public TensorSource {
 public:
  explicit SumSource(std::vector<SharedBuffer> parts) : parts_(std::move(parts)) {}
  int64_t size() const override { return parts_.front()->size(); }
  std::span<const float> Read(int64_t offset, std::span<float> scratch) const override {
    std::ranges::copy(parts_.front()->span().subspan(offset, scratch.size()), scratch.begin());
    for (size_t p = 1; p < parts_.size(); ++p) {
      AddTo(parts_[p]->span().subspan(offset, scratch.size()), scratch);
    }
    return scratch;
  }

 private:
  const std::vector<SharedBuffer> parts_;
};

int Permits(const JobConfig& config) {
  return std::max(config.replicas_to_aggregate, config.total_num_replicas);
}

absl::Status Validate(const JobConfig& config) {
  if (config.sync && config.replicas_to_aggregate < 1) {
    return base::UsageError(absl::StrCat("replicas_to_aggregate is ", config.replicas_to_aggregate,
                                         "; it must be 1 or more"));
  }
  if (config.sync && config.total_num_replicas < 1) {
    return base::UsageError(absl::StrCat("total_num_replicas is ", config.total_num_replicas,
                                         "; it must be 1 or more"));
  }
  return absl::OkStatus();
}

}  // namespace

// Answers gathered under the lock and given after it: declare one before the lock.
class Store::Replies {
 public:
  Replies() = default;
  Replies(const Replies&) = delete;
  Replies& operator=(const Replies&) = delete;
  ~Replies() {
    for (auto& [done, reply] : replies_) done(std::move(reply));
  }
  void Add(StoreDone done, absl::StatusOr<StoreReply> reply) {
    replies_.emplace_back(std::move(done), std::move(reply));
  }

 private:
  std::vector<std::pair<StoreDone, absl::StatusOr<StoreReply>>> replies_;
};

Store::Store(int shard, int shard_count, absl::Duration worker_lease)
    : shard_(shard), shard_count_(shard_count), worker_lease_(worker_lease) {}

Store::~Store() { Close(base::ClusterError("is stopping")); }

void Store::Close(const absl::Status& reason) {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = reason;
  }
  FailWaiters(reason);
}

absl::Status Store::Configure(JobConfig config) {
  RETURN_IF_ERROR(Validate(config));
  std::vector<Shard> shards = PlaceVariables(config.variables, shard_count_, config.placement);
  FailWaiters(absl::UnavailableError("the chief started the job anew"));
  absl::MutexLock lock(&mutex_);
  parameters_ = std::make_shared<ShardParameters>(config, std::move(shards[shard_]));
  config_ = std::make_shared<const JobConfig>(std::move(config));
  staging_pool_ = std::make_unique<BufferPool>(parameters_->size());
  sum_.reset();
  workers_.Clear();
  state_ = PsState::kEmpty;
  pushes_ = 0;
  stale_dropped_ = 0;
  lead_incarnation_ = 0;
  AdoptVersion(0);
  return absl::OkStatus();
}

std::shared_ptr<const JobConfig> Store::config() const {
  absl::MutexLock lock(&mutex_);
  return config_;
}

absl::Status Store::Initialize(const TensorSource& values, int64_t global_step, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (!parameters_) return base::ClusterError("not configured yet");
  if (values.size() != parameters_->size()) {
    return base::UsageError(absl::StrCat("got ", values.size(), " initial values for a shard of ",
                                         parameters_->size()));
  }
  parameters_->Initialize(values);
  Start(global_step, now);
  return absl::OkStatus();
}

absl::StatusOr<ShardState> Store::Describe() const {
  absl::MutexLock lock(&mutex_);
  if (!parameters_) return base::ClusterError("not configured yet");
  return parameters_->Describe();
}

absl::Status Store::Load(const ShardState& state, int64_t global_step, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (!parameters_) return base::ClusterError("not configured yet");
  RETURN_IF_ERROR(parameters_->Load(state));
  Start(global_step, now);
  return absl::OkStatus();
}

void Store::Start(int64_t global_step, absl::Time now) {
  AdoptVersion(global_step);
  state_ = PsState::kReady;
  started_ = now;
}

void Store::AdoptVersion(int64_t version) {
  version_ = version;
  last_commit_ = Commit{};
  round_.clear();
  staged_.clear();
  hold_until_ = absl::InfinitePast();
  fresh_ = true;
}

absl::Status Store::CheckReady() const {
  RETURN_IF_ERROR(closed_);
  if (state_ == PsState::kEmpty || !parameters_ || !parameters_->values()) {
    return base::ClusterError("has no variables yet");
  }
  return absl::OkStatus();
}

absl::Status Store::CheckPush(const Push& push, const TensorSource& gradient) const {
  RETURN_IF_ERROR(CheckReady());
  if (gradient.size() != parameters_->size()) {
    return base::UsageError(absl::StrCat("got a gradient of ", gradient.size(),
                                         " elements for a shard of ", parameters_->size()));
  }
  if (config_->sync && push.base_step > version_ && !Finished()) {
    return base::ClusterError(
        absl::StrCat("is at version ", version_, ", the gradient is for version ", push.base_step));
  }
  return absl::OkStatus();
}

bool Store::Finished() const {
  return state_ == PsState::kFinished || (config_->last_step > 0 && version_ >= config_->last_step);
}

StoreReply Store::Reply(bool dropped) const {
  StoreReply reply{.version = version_,
                   .dropped = dropped,
                   .finished = Finished(),
                   .values = parameters_->values()};
  if (leads_others() && config_->sync) reply.commit = last_commit_;
  return reply;
}

void Store::PushGradient(const Push& push, const TensorSource& gradient, absl::Time now,
                         StoreDone done) {
  Replies replies;
  absl::MutexLock lock(&mutex_);
  if (absl::Status status = CheckPush(push, gradient); !status.ok()) {
    return replies.Add(std::move(done), std::move(status));
  }
  if (config_->sync && shard_ != 0) {
    return replies.Add(std::move(done), base::UsageError("in sync mode push to shard 0"));
  }
  absl::StatusOr<Worker*> touched = workers_.Touch({push.id.task, push.id.incarnation}, now);
  if (!touched.ok()) return replies.Add(std::move(done), touched.status());
  Worker& worker = **touched;
  if (worker.last_sequence && push.id.sequence <= *worker.last_sequence) {
    Retry(push, worker, std::move(done), replies);
    return ServeWaiters(now, replies);
  }
  worker.participant = true;
  worker.last_sequence = push.id.sequence;
  worker.last_dropped = Finished();
  ++pushes_;
  if (Finished()) return replies.Add(std::move(done), Reply(/*dropped=*/true));
  if (!config_->sync) return replies.Add(std::move(done), ApplyAtOnce(push, gradient));
  if (push.base_step < version_) {
    ++stale_dropped_;
    worker.last_dropped = true;
    worker.activity = Worker::Activity::kComputing;
    return replies.Add(std::move(done), Reply(/*dropped=*/true));
  }
  if (static_cast<int>(round_.size()) >= config_->replicas_to_aggregate) {
    // Only while a snapshot holds back a complete round: without it, this push would be stale.
    ++stale_dropped_;
    worker.last_dropped = true;
  } else {
    Accumulate(push, gradient);
    worker.last_accepted_version = version_;
  }
  worker.activity = Worker::Activity::kWaiting;
  waiters_.push_back({push.id, worker.last_dropped, std::move(done)});
  CommitIfComplete(now);
  ServeWaiters(now, replies);
}

// The answer to a push got lost, or its call broke off: answer again, count nothing twice.
void Store::Retry(const Push& push, Worker& worker, StoreDone done, Replies& replies) {
  if (push.id.sequence < *worker.last_sequence) {
    return replies.Add(std::move(done), absl::AbortedError("a later push was seen already"));
  }
  const auto waiter = std::ranges::find(waiters_, push.id, &Waiter::id);
  if (waiter != waiters_.end()) {
    replies.Add(std::exchange(waiter->done, std::move(done)),
                absl::AbortedError("a retry took this call's place"));
    return;
  }
  const bool round_is_open = config_->sync && !worker.last_dropped && !Finished() &&
                             worker.last_accepted_version == version_ &&
                             worker.activity == Worker::Activity::kIdle;
  if (round_is_open) {
    worker.activity = Worker::Activity::kWaiting;
    waiters_.push_back({push.id, false, std::move(done)});
    return;
  }
  if (config_->sync) worker.activity = Worker::Activity::kComputing;
  replies.Add(std::move(done), Reply(worker.last_dropped));
}

StoreReply Store::ApplyAtOnce(const Push& push, const TensorSource& gradient) {
  const int64_t staleness = std::max<int64_t>(version_ - push.base_step, 0);
  parameters_->Apply(gradient, 1.0f, version_);
  ++version_;
  StoreReply reply = Reply();
  reply.staleness = staleness;
  return reply;
}

void Store::Accumulate(const Push& push, const TensorSource& gradient) {
  if (!sum_) sum_ = std::make_unique<FloatBuffer>(parameters_->size());
  if (round_.empty()) {
    CopyTo(gradient, sum_->span());
  } else {
    ForEachChunk(gradient, [&](int64_t offset, std::span<const float> chunk) {
      AddTo(chunk, sum_->span().subspan(offset, chunk.size()));
    });
  }
  round_.push_back(push.id);
}

void Store::CommitIfComplete(absl::Time now) {
  if (static_cast<int>(round_.size()) < config_->replicas_to_aggregate || now < hold_until_) return;
  parameters_->Apply(SpanSource(sum_->span()), 1.0f / static_cast<float>(round_.size()), version_);
  ++version_;
  last_commit_ = {.known = true, .pushes = std::exchange(round_, {})};
}

// How many waiting workers may compute another gradient for this version. Each version has
// max(replicas_to_aggregate, total_num_replicas) tokens; those of live workers that are computing,
// for this version or an older one, are theirs, and workers that have not come yet keep theirs for
// one lease. So the token of a lost worker goes to whoever waits, and a round always completes.
int Store::FreeTokens(absl::Time now) const {
  const int round = static_cast<int>(round_.size());
  if (round >= config_->replicas_to_aggregate) return 0;  // a snapshot holds the round back
  const int not_yet_here = now < started_ + worker_lease_
                               ? std::max(config_->total_num_replicas - workers_.participants(), 0)
                               : 0;
  return Permits(*config_) - round - workers_.live_and_computing() - not_yet_here;
}

void Store::ServeWaiters(absl::Time now, Replies& replies) {
  while (!waiters_.empty() && (Finished() || FreeTokens(now) > 0)) {
    Waiter waiter = std::move(waiters_.front());
    waiters_.pop_front();
    if (Worker* worker = workers_.Find({waiter.id.task, waiter.id.incarnation})) {
      worker->activity = Worker::Activity::kComputing;
    }
    replies.Add(std::move(waiter.done), Reply(waiter.dropped));
  }
}

void Store::CancelWait(const PushId& id) {
  Replies replies;
  absl::MutexLock lock(&mutex_);
  const auto waiter = std::ranges::find(waiters_, id, &Waiter::id);
  if (waiter == waiters_.end()) return;
  if (Worker* worker = workers_.Find({id.task, id.incarnation})) {
    worker->activity = Worker::Activity::kIdle;
  }
  replies.Add(std::move(waiter->done), absl::CancelledError("the worker gave up its wait"));
  waiters_.erase(waiter);
}

absl::StatusOr<StoreReply> Store::StageGradient(const Push& push, const TensorSource& gradient,
                                                absl::Time now) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckPush(push, gradient));
  if (!config_->sync || shard_ == 0) {
    return base::UsageError("only shards other than 0 take staged gradients, in sync mode");
  }
  RETURN_IF_ERROR(workers_.Touch({push.id.task, push.id.incarnation}, now).status());
  StoreReply reply{.version = version_, .finished = Finished()};
  // A stale gradient is not kept: shard 0, which is not behind this one, will drop it as well.
  if (push.base_step < version_ || Finished() || staged_.contains(push.id)) return reply;
  const auto of_caller = std::ranges::count_if(
      staged_, [&](const auto& entry) { return entry.first.task == push.id.task; });
  if (of_caller > Permits(*config_)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        base::TaskName(push.id.task), " has ", of_caller, " undecided gradients on this shard"));
  }
  std::shared_ptr<FloatBuffer> kept = staging_pool_->Take();
  CopyTo(gradient, kept->span());
  staged_[push.id] = {push.base_step, std::move(kept)};
  ++pushes_;
  return reply;
}

absl::Status Store::CatchUp(const LeadView& lead) {
  if (lead.incarnation != lead_incarnation_) {
    if (lead_incarnation_ != 0 && lead.commit.known) {
      return base::ClusterError("shard 0 was restarted, or this shard saw a newer one");
    }
    lead_incarnation_ = lead.incarnation;
    if (version_ != lead.version && !lead.commit.known) AdoptVersion(lead.version);
  }
  if (version_ >= lead.version && !(fresh_ && version_ > lead.version)) return absl::OkStatus();
  if (lead.commit.known && version_ == lead.version - 1) return ApplyCommit(lead.commit);
  // Restored at another version than shard 0 is at: what lies between is lost.
  if (fresh_ || !lead.commit.known) {
    AdoptVersion(lead.version);
    return absl::OkStatus();
  }
  return base::ClusterError(absl::StrCat("is at version ", version_, ", shard 0 at ", lead.version,
                                         ": it missed an update"));
}

absl::Status Store::ApplyCommit(const Commit& commit) {
  std::vector<SharedBuffer> gradients;
  for (const PushId& id : commit.pushes) {
    const auto staged = staged_.find(id);
    if (staged != staged_.end()) gradients.push_back(staged->second.gradient);
  }
  if (gradients.size() != commit.pushes.size()) {
    // A restarted shard lost what was staged on it; any other must have it all.
    if (!fresh_) return base::ClusterError("a gradient of shard 0's round was never staged here");
    AdoptVersion(version_ + 1);
    return absl::OkStatus();
  }
  const float scale = 1.0f / static_cast<float>(gradients.size());
  parameters_->Apply(SumSource(std::move(gradients)), scale, version_);
  ++version_;
  fresh_ = false;
  std::erase_if(staged_, [version = version_](const auto& entry) {
    return entry.second.base_step < version;
  });
  return absl::OkStatus();
}

absl::StatusOr<StoreReply> Store::Pull(const Caller& caller, const std::optional<LeadView>& lead,
                                       absl::Time now) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckReady());
  RETURN_IF_ERROR(workers_.Touch(caller, now).status());
  if (lead && shard_ != 0 && config_->sync) RETURN_IF_ERROR(CatchUp(*lead));
  return Reply();
}

absl::StatusOr<StoreReply> Store::PullAverages(const Caller& caller, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckReady());
  RETURN_IF_ERROR(workers_.Touch(caller, now).status());
  StoreReply reply = Reply();
  reply.values = parameters_->Averages();
  return reply;
}

absl::StatusOr<Snapshot> Store::TakeSnapshot(const std::optional<LeadView>& lead,
                                             absl::Time hold_until) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckReady());
  if (lead && shard_ != 0 && config_->sync) {
    RETURN_IF_ERROR(CatchUp(*lead));
    if (version_ != lead->version) {
      return absl::AbortedError(
          absl::StrCat("is at version ", version_, " already, not at ", lead->version));
    }
  }
  if (leads_others() && config_->sync) hold_until_ = hold_until;
  return Snapshot{version_, Reply().commit, parameters_->Copy(version_), parameters_};
}

void Store::ReleaseHold(absl::Time now) {
  Replies replies;
  absl::MutexLock lock(&mutex_);
  hold_until_ = absl::InfinitePast();
  if (state_ != PsState::kReady || !config_->sync) return;
  CommitIfComplete(now);
  ServeWaiters(now, replies);
}

absl::Status Store::Heartbeat(const Caller& caller, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  return workers_.Touch(caller, now).status();
}

void Store::Leave(const Caller& caller, absl::Time now) {
  Replies replies;
  absl::MutexLock lock(&mutex_);
  workers_.Leave(caller);
  if (state_ == PsState::kReady && config_->sync) ServeWaiters(now, replies);
}

std::vector<base::Task> Store::Tick(absl::Time now) {
  Replies replies;
  absl::MutexLock lock(&mutex_);
  std::vector<base::Task> lost = workers_.Expire(now - worker_lease_);
  if (state_ == PsState::kReady && config_->sync) {
    CommitIfComplete(now);
    ServeWaiters(now, replies);
  }
  return lost;
}

void Store::Finish() {
  Replies replies;
  absl::MutexLock lock(&mutex_);
  state_ = PsState::kFinished;
  if (config_) ServeWaiters(absl::InfiniteFuture(), replies);
}

void Store::FailWaiters(const absl::Status& status) {
  Replies replies;
  absl::MutexLock lock(&mutex_);
  for (Waiter& waiter : waiters_) replies.Add(std::move(waiter.done), status);
  waiters_.clear();
}

PsStatus Store::status() const {
  absl::MutexLock lock(&mutex_);
  PsStatus status{.state = state_, .global_step = version_, .stale_dropped = stale_dropped_};
  if (config_ != nullptr && config_->sync && shard_ == 0) {
    for (const PushId& id : round_) status.round.push_back(id.task);
    status.round_size = config_->replicas_to_aggregate;
  }
  return status;
}

int64_t Store::pushes() const {
  absl::MutexLock lock(&mutex_);
  return pushes_;
}

int Store::live_workers() const {
  absl::MutexLock lock(&mutex_);
  return workers_.live();
}

int64_t Store::parameter_bytes() const {
  absl::MutexLock lock(&mutex_);
  return parameters_ ? parameters_->size() * static_cast<int64_t>(sizeof(float)) : 0;
}

}  // namespace trainer
