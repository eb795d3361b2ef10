// /metrics (Prometheus), /progress (JSON) and /healthz of one task over HTTP. It knows nothing of
// how training works: the loop tells it numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/cluster_spec.h"

namespace trainer {

struct MonitorOptions {
  std::string address = "0.0.0.0";  // where to listen
  int port = 0;  // --metrics_port; 0 here = any free one (tests); off is the caller's
  base::Task task;
  int64_t last_step = 0;  // 0 = unknown
  base::Clock* clock = base::Clock::Real();
};

// One training step of a worker.
struct MonitorStep {
  int64_t global_step = 0;
  double loss = 0.0;
  int64_t examples = 0;
  double seconds = 0.0;   // of the step
  int64_t staleness = 0;  // async: updates by others since this worker's pull
  bool dropped = false;   // sync: the gradient was stale
};

// Totals that others count. Negative fields are left as they are.
struct MonitorTotals {
  int64_t global_step = -1;
  int64_t pushes = -1;  // ps: gradients received
  int64_t stale_dropped = -1;
  int64_t live_workers = -1;     // ps
  int64_t parameter_bytes = -1;  // ps
  int64_t wire_bytes_sent = -1;
  int64_t wire_bytes_received = -1;
};

// Thread-safe. The HTTP server runs on two threads of its own.
class Monitor {
 public:
  // UsageError naming the address when the port cannot be taken.
  static absl::StatusOr<std::unique_ptr<Monitor>> Start(const MonitorOptions& options);
  virtual ~Monitor() = default;  // stops serving

  virtual int port() const = 0;
  // Called once a step by one thread; below 1 µs.
  virtual void OnStep(const MonitorStep& step) = 0;
  virtual void OnCheckpoint(absl::Duration took) = 0;
  virtual void OnEvaluation(double accuracy) = 0;
  virtual void SetTotals(const MonitorTotals& totals) = 0;
  // Called on a server thread before each answer, to bring totals up to date. Set it before use.
  virtual void SetSampler(std::function<MonitorTotals()> sampler) = 0;
};

}  // namespace trainer
