#include "trainer/train/ps_task.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/ps/server.h"
#include "trainer/report/monitor.h"
#include "trainer/train/wait.h"

namespace trainer {
namespace {

absl::StatusOr<std::unique_ptr<Monitor>> StartMonitor(const Options& options, const Role& role,
                                                      const PsServer& server) {
  if (options.metrics_port == 0) return nullptr;
  ASSIGN_OR_RETURN(std::unique_ptr<Monitor> monitor,
                   Monitor::Start({.port = options.metrics_port, .task = role.task}));
  monitor->SetSampler([&server] {
    const PsStats stats = server.stats();
    return MonitorTotals{.global_step = stats.global_step,
                         .pushes = stats.pushes,
                         .stale_dropped = stats.stale_dropped,
                         .live_workers = stats.live_workers,
                         .parameter_bytes = stats.parameter_bytes,
                         .wire_bytes_sent = stats.bytes_sent,
                         .wire_bytes_received = stats.bytes_received};
  });
  return monitor;
}

// A chief that is only starting, too, initialises the variables sooner than this.
constexpr absl::Duration kLookForEndAfter = absl::Seconds(10);

// A server that was killed while training ended, and came back, would wait for ever. It knows the
// last step only where it was told: a preset's own may not be the workers'.
bool TrainingEnded(const Options& options) {
  return EndedAlready(options.checkpoint_dir, options.train_steps.value_or(0)).has_value();
}

// Serves until finished, stopped, or nobody has been there for --wait_timeout.
absl::Status ServeUntilDone(PsServer& server, const Options& options, std::stop_token stop) {
  const absl::Duration timeout = absl::Seconds(options.wait_timeout_secs);
  bool looked_for_end = false;
  absl::Time last_seen = absl::Now();
  absl::Time next_log = last_seen + absl::Seconds(10);
  while (!stop.stop_requested()) {
    // The slice bounds how late a stop is noticed; the end of training is noticed at once.
    if (server.WaitUntilFinished(absl::Milliseconds(200))) return absl::OkStatus();
    const absl::Time now = absl::Now();
    const PsStats stats = server.stats();
    if (stats.live_workers > 0) {
      last_seen = now;
      next_log = now + absl::Seconds(10);
      continue;
    }
    const char* const awaited =
        stats.state == PsState::kEmpty ? "the chief to initialise the variables" : "a worker";
    if (!looked_for_end && stats.state == PsState::kEmpty && now - last_seen >= kLookForEndAfter) {
      looked_for_end = true;
      if (TrainingEnded(options)) return absl::OkStatus();
    }
    if (now - last_seen >= timeout) {
      return base::ClusterError(absl::StrCat("gave up waiting for ", awaited, " after ",
                                             absl::FormatDuration(timeout),
                                             " (--wait_timeout sets how long)"));
    }
    if (now >= next_log) {
      base::LogInfo(absl::StrCat("still waiting for ", awaited, ", ",
                                 absl::ToInt64Seconds(now - last_seen), " s"));
      next_log += absl::Seconds(10);
    }
  }
  return absl::CancelledError("stopped");
}

}  // namespace

absl::Status RunPs(const Options& options, const Role& role, std::stop_token stop) {
  PsServerOptions server_options;
  server_options.listen_address = ListenAddress(role.address);
  server_options.shard = role.task.index;
  server_options.shard_count = static_cast<int>(role.ps_addresses.size());
  server_options.writer = MakeShardWriter({});
  server_options.reader = MakeShardReader();
  server_options.same_node = options.same_node;
  server_options.tls = role.tls;
  ASSIGN_OR_RETURN(const std::unique_ptr<PsServer> server, PsServer::Start(server_options));
  base::LogInfo("parameter server listens",
                {{"task", base::TaskName(role.task)}, {"address", server_options.listen_address}});
  ASSIGN_OR_RETURN(const std::unique_ptr<Monitor> monitor, StartMonitor(options, role, *server));
  const absl::Status result = ServeUntilDone(*server, options, stop);
  const PsStats stats = server->stats();
  server->Shutdown();
  if (result.ok()) {
    base::LogInfo("training is over", {{"task", base::TaskName(role.task)},
                                       {"step", stats.global_step},
                                       {"stale_dropped", stats.stale_dropped}});
  }
  return result;
}

}  // namespace trainer
