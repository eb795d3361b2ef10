// One shard of a job: its variables, their version, and the rules by which gradients become
// updates (async, or averaged in rounds). PURE apart from its mutex: no sockets, no clock, no
// files.
//
// Several shards in sync mode apply the same pushes for each version. Shard 0 leads: a gradient is
// first staged on the other shards, then pushed to shard 0, which decides what makes a round. Each
// of its replies carries the commit of the newest version: the pushes that made it. A worker passes
// that commit on when it pulls from the other shards, which apply it unless they have done so. As
// a gradient for the next round needs variables from every shard, a follower is at most one version
// behind, and a worker that dies at any instant cannot make shards differ.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "trainer/ps/client.h"
#include "trainer/ps/job_config.h"
#include "trainer/ps/shard_parameters.h"
#include "trainer/ps/tensor.h"
#include "trainer/ps/worker_table.h"

namespace trainer {

// One push, whichever shard it is sent to and however often it is retried.
struct PushId {
  base::Task task;
  uint64_t incarnation = 0;
  uint64_t sequence = 0;  // grows with each push of one incarnation
  bool operator==(const PushId&) const = default;
  bool operator<(const PushId& other) const {
    return std::tie(task, incarnation, sequence) <
           std::tie(other.task, other.incarnation, other.sequence);
  }
};

// The pushes, in order, that made the newest version. Not known for the version that a shard was
// initialised or restored with.
struct Commit {
  bool known = false;
  std::vector<PushId> pushes;
};

// What shard 0 said last, as a worker tells it to the other shards.
struct LeadView {
  uint64_t incarnation = 0;  // of shard 0's process
  int64_t version = 0;
  Commit commit;
};

struct Push {
  PushId id;
  int64_t base_step = 0;  // version of the variables that the gradient was computed from
};

struct StoreReply {
  int64_t version = 0;
  bool dropped = false;
  bool finished = false;
  int64_t staleness = 0;
  SharedBuffer values;  // of `version`; null in replies without variables
  Commit commit;        // of `version`; filled in by shard 0 of several in sync mode
};

// Called once, on any thread, never under the store's lock.
using StoreDone = absl::AnyInvocable<void(absl::StatusOr<StoreReply>)>;

// A shard at one version, on its way to a checkpoint.
struct Snapshot {
  int64_t version = 0;
  Commit commit;
  ShardCopy copy;
  std::shared_ptr<const ShardParameters> layout;
  // Borrows from this.
  ShardState State() const { return layout->ToState(copy); }
};

// Thread-safe. Errors: kUnavailable while there are no variables (yet), or when the caller knows
// another past than this shard and must attach again; kInvalidArgument for a gradient of the wrong
// size; kAborted for a call that a later one replaced.
class Store {
 public:
  // worker_lease: how long a silent worker keeps its token.
  Store(int shard, int shard_count, absl::Duration worker_lease);
  ~Store();

  // Becomes empty, with this layout. kInvalidArgument if the configuration makes no sense.
  absl::Status Configure(JobConfig config);
  // Null before Configure.
  std::shared_ptr<const JobConfig> config() const;
  absl::Status Initialize(const TensorSource& values, int64_t global_step, absl::Time now);
  absl::StatusOr<ShardState> Describe() const;
  absl::Status Load(const ShardState& state, int64_t global_step, absl::Time now);

  // async: applies, replies at once. sync: replies when the worker has a token for its next
  // gradient, at once if the push is stale. A retry of the newest push is answered, not applied
  // again.
  void PushGradient(const Push& push, const TensorSource& gradient, absl::Time now, StoreDone done);
  // The caller has gone away: its wait ends with kCancelled. No effect if it does not wait.
  void CancelWait(const PushId& id);
  // sync, shards other than 0: keeps the gradient until shard 0's decision is known. The reply has
  // no values.
  absl::StatusOr<StoreReply> StageGradient(const Push& push, const TensorSource& gradient,
                                           absl::Time now);
  // The newest variables. `lead`: catch up with shard 0 first; the reply may be newer than that.
  absl::StatusOr<StoreReply> Pull(const Caller& caller, const std::optional<LeadView>& lead,
                                  absl::Time now);
  absl::StatusOr<StoreReply> PullAverages(const Caller& caller, absl::Time now);

  // Copies the shard for a checkpoint. `lead`: as for Pull; kAborted if this shard is newer.
  // hold_until: shard 0 makes no new version before ReleaseHold or this time, so that the other
  // shards can be copied at the same version.
  absl::StatusOr<Snapshot> TakeSnapshot(const std::optional<LeadView>& lead, absl::Time hold_until);
  void ReleaseHold(absl::Time now);

  // Renews a lease.
  absl::Status Heartbeat(const Caller& caller, absl::Time now);
  void Leave(const Caller& caller, absl::Time now);
  // Ends leases and holds that are over; returns the workers lost. Call a few times per lease.
  std::vector<base::Task> Tick(absl::Time now);

  // Training is over: every wait and every later push is answered with finished.
  void Finish();
  // Every wait, and every later call that needs variables, ends with `reason`. For good.
  void Close(const absl::Status& reason);

  PsStatus status() const;  // incarnation is left 0
  int64_t pushes() const;
  int live_workers() const;
  int64_t parameter_bytes() const;

 private:
  struct Waiter {
    PushId id;
    bool dropped = false;
    StoreDone done;
  };
  class Replies;
  struct Staged {
    int64_t base_step = 0;
    SharedBuffer gradient;
  };

  void FailWaiters(const absl::Status& status);
  bool leads_others() const { return shard_ == 0 && shard_count_ > 1; }
  absl::Status CheckReady() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckPush(const Push& push, const TensorSource& gradient) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Finished() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  StoreReply Reply(bool dropped = false) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Start(int64_t global_step, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void Retry(const Push& push, Worker& worker, StoreDone done, Replies& replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  StoreReply ApplyAtOnce(const Push& push, const TensorSource& gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Accumulate(const Push& push, const TensorSource& gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CommitIfComplete(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ServeWaiters(absl::Time now, Replies& replies) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int FreeTokens(absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CatchUp(const LeadView& lead) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ApplyCommit(const Commit& commit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AdoptVersion(int64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int shard_;
  const int shard_count_;
  const absl::Duration worker_lease_;

  mutable absl::Mutex mutex_;
  std::shared_ptr<const JobConfig> config_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<ShardParameters> parameters_ ABSL_GUARDED_BY(mutex_);
  PsState state_ ABSL_GUARDED_BY(mutex_) = PsState::kEmpty;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  Commit last_commit_ ABSL_GUARDED_BY(mutex_);
  absl::Time started_ ABSL_GUARDED_BY(mutex_);
  WorkerTable workers_ ABSL_GUARDED_BY(mutex_);
  int64_t pushes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t stale_dropped_ ABSL_GUARDED_BY(mutex_) = 0;

  // sync, shard 0: the round being gathered, and who waits for the next.
  std::vector<PushId> round_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<FloatBuffer> sum_ ABSL_GUARDED_BY(mutex_);
  std::deque<Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
  absl::Time hold_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();

  // sync, other shards: gradients whose round is not decided.
  std::map<PushId, Staged> staged_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<BufferPool> staging_pool_ ABSL_GUARDED_BY(mutex_);
  uint64_t lead_incarnation_ ABSL_GUARDED_BY(mutex_) = 0;
  bool fresh_ ABSL_GUARDED_BY(mutex_) = true;  // no commit applied since it got its values
};

}  // namespace trainer
