// A parameter server: one shard behind a gRPC port, until the chief says that training is over.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/ps/client.h"
#include "trainer/ps/job_config.h"
#include "trainer/ps/task_tls.h"

namespace trainer {

// Writes data file `shard` of `shard_count` of the checkpoint `prefix`; returns opaque entries for
// the index. Reads back the named slices of `wanted` (values empty) from a checkpoint. Supplied by
// train/, so that ps/ knows no file format.
using ShardWriter = std::function<absl::StatusOr<std::string>(
    const ShardState& state, const std::string& prefix, int shard, int shard_count)>;
using ShardReader =
    std::function<absl::StatusOr<ShardState>(const std::string& prefix, ShardState wanted)>;

struct PsServerOptions {
  std::string listen_address;  // "0.0.0.0:2222"; port 0 = any free one
  int shard = 0;               // this ps's task index
  int shard_count = 1;
  ShardWriter writer;
  ShardReader reader;
  bool same_node = true;               // accept shared-memory sessions
  std::shared_ptr<const TaskTls> tls;  // null = plain text
  absl::Duration worker_lease =
      absl::Seconds(10);  // a worker silent for longer gives its token back
  absl::Duration finish_linger = absl::Seconds(2);  // how long kFinished is told before exit
};

// What /metrics and /progress of a ps show.
struct PsStats {
  PsState state = PsState::kEmpty;
  int64_t global_step = 0, pushes = 0, stale_dropped = 0, live_workers = 0;
  int64_t parameter_bytes = 0, bytes_received = 0, bytes_sent = 0;
};

// Thread-safe.
class PsServer {
 public:
  // Listens. kInvalidArgument naming the address when the port is taken.
  static absl::StatusOr<std::unique_ptr<PsServer>> Start(const PsServerOptions& options);
  virtual ~PsServer() = default;

  virtual int port() const = 0;
  virtual PsStats stats() const = 0;
  // Blocks until the job is finished (true) or `deadline` from now passes (false).
  virtual bool WaitUntilFinished(absl::Duration deadline) = 0;
  // Stops serving: running calls are cancelled. Idempotent.
  virtual void Shutdown() = 0;
};

}  // namespace trainer
