// A worker's view of all parameter servers of a cluster: one flat parameter buffer, sharded behind
// the scenes. Each step is one exchange per ps: gradients up, the next variables down.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/cluster_spec.h"
#include "trainer/ps/job_config.h"
#include "trainer/ps/task_tls.h"

namespace trainer {

enum class WireDtype { kF32, kBf16 };

struct PsClientOptions {
  std::vector<std::string> addresses;      // one per ps task, "host:port"
  base::Task task;                         // who is calling, e.g. {"worker", 1}
  uint64_t incarnation = 0;                // random id of this process's life
  WireDtype wire_dtype = WireDtype::kF32;  // of gradients and variables on the wire
  bool same_node = true;                   // use shared memory with a ps on this machine
  std::shared_ptr<const TaskTls> tls;      // null = plain text
  std::vector<base::Task> trainers;        // who else may push: named when waited for long
  absl::Duration wait_log_period = absl::Seconds(10);  // of lines that say who is waited for
  absl::Duration call_timeout =
      absl::Seconds(30);  // deadline of a call that does not wait for others
};

enum class PsState {
  kEmpty,     // no variables yet: wait for the chief
  kReady,     // training
  kFinished,  // the last step is reached and saved; the ps is about to exit
};

struct PsStatus {
  PsState state = PsState::kEmpty;
  uint64_t incarnation = 0;   // of the ps process; another value means that it was restarted
  int64_t global_step = 0;    // updates applied to this shard
  int64_t stale_dropped = 0;  // sync: gradients dropped as stale since the start
  // sync, ps 0: who has pushed in the present round, and how many gradients it needs.
  std::vector<base::Task> round;
  int round_size = 0;
};

struct StepResult {
  int64_t global_step = 0;  // version of the variables now in the caller's buffer
  bool dropped = false;     // sync: the pushed gradient was stale and not used
  bool finished = false;    // last_step is reached: stop training
  int64_t staleness = 0;    // async: updates by others between this worker's pull and its push
};

// What a ps answered when it wrote its part of a checkpoint.
struct SavedShard {
  int64_t global_step = 0;
  std::string
      entries;  // opaque to ps/: made by the ps's ShardWriter, read by the chief's index writer
};

// Not thread-safe except where said. Errors: kUnavailable when a ps is gone, was restarted
// (incarnation changed) or answers kEmpty; the caller then waits with WaitUntilReady or, as the
// chief, repairs with Configure + InitializeShard / RestoreShard.
class PsClient {
 public:
  static std::unique_ptr<PsClient> Create(const PsClientOptions& options);
  virtual ~PsClient() = default;

  virtual int server_count() const = 0;

  // Asks every ps for its status; entry i is an error if ps i does not answer within `timeout`.
  // Thread-safe.
  virtual std::vector<absl::StatusOr<PsStatus>> GetStatus(absl::Duration timeout) = 0;

  // Chief: tells ps `server` the job; its shard becomes empty. Then give it values by one of the
  // next two. `global_step` is the version that the shard starts with.
  virtual absl::Status Configure(int server, const JobConfig& config) = 0;
  // parameters: the whole flat buffer; the ps gets its part. Averages start equal to the variables,
  // slots at their initial value. The ps becomes kReady.
  virtual absl::Status InitializeShard(int server, std::span<const float> parameters,
                                       int64_t global_step) = 0;
  // The ps reads its own part from the checkpoint (through its ShardReader) and becomes kReady.
  // global_step < 0: the checkpoint's own. Returns the step that the shard now has.
  virtual absl::StatusOr<int64_t> RestoreShard(int server, const std::string& checkpoint_prefix,
                                               int64_t global_step) = 0;

  // Learns the layout (variables, placement) that the chief configured, so that Pull and Exchange
  // work; checks that it equals what this worker would have sent. REQUIRES: all ps kReady.
  virtual absl::Status Attach(const JobConfig& config) = 0;

  // Copies the newest variables into `parameters` (the model's flat buffer).
  virtual absl::StatusOr<StepResult> Pull(std::span<float> parameters) = 0;

  // Memory for the flat buffers that Exchange need not copy. gradients(): left alone until the next
  // call. variables(): empty = use your own; left alone until the next exchange or Attach, also if
  // the connection behind it is lost. REQUIRES: attached.
  virtual std::span<float> gradients() = 0;
  virtual std::span<float> variables() = 0;

  // Pushes `gradients`, computed from the variables of version `base_step`, and pulls the next
  // variables into `parameters`, in one round trip per ps.
  // async: applied at once. sync: returns when this worker holds a token for the next step, or at
  // once with dropped = true if base_step is stale; waits as long as it takes for the other
  // replicas (until `stop`), so long as the ps answers heartbeats.
  virtual absl::StatusOr<StepResult> Exchange(std::span<const float> gradients, int64_t base_step,
                                              std::span<float> parameters,
                                              std::stop_token stop) = 0;

  // Copies the moving averages (or the variables where there are none) into `averages`.
  virtual absl::Status PullAverages(std::span<float> averages) = 0;

  // Chief: every ps snapshots its shard at one version and writes data file i of server_count()
  // under `prefix` (through its ShardWriter), in parallel, while training goes on. Thread-safe:
  // meant for a background thread.
  virtual absl::StatusOr<std::vector<SavedShard>> SaveShards(const std::string& prefix) = 0;

  // This worker leaves in good order: its token and lease are given back.
  virtual void Goodbye() = 0;

  // Chief: training is over and saved; every ps answers kFinished for a short while, then exits 0.
  virtual absl::Status Finish() = 0;

  // Bytes sent and received since Create, payload only.
  virtual int64_t bytes_sent() const = 0;
  virtual int64_t bytes_received() const = 0;
};

}  // namespace trainer
