// /healthz, /readyz, /metrics and /debug pages of the process over HTTP. It knows none of what they
// tell: they are callbacks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace runtime {

// The callbacks are called on server threads, maybe several at once.
struct HealthServerOptions {
  // /metrics and /debug/ are served here …
  std::string metrics_address = ":8080";
  // … and /healthz and /readyz here. The same address for both is fine.
  std::string probe_address = ":8081";
  // What users call these two, for error messages.
  std::string metrics_flag = "--metrics-bind-address";
  std::string probe_flag = "--health-probe-bind-address";

  // OK = 200, else 503 and the reason. Empty = always OK.
  std::function<absl::Status()> alive;
  std::function<absl::Status()> ready;
  std::function<std::string()> metrics;  // Prometheus text; empty = no such page
  // Text of the page /debug/NAME by NAME; /debug/ lists them.
  std::map<std::string, std::function<std::string()>> debug;
};

// Two threads that answer and one that accepts for each address. Thread-safe.
class HealthServer {
 public:
  // UsageError that names flag and address if one is malformed or cannot be listened on.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(const HealthServerOptions& options);
  virtual ~HealthServer() = default;  // stops serving; no callback runs any more

  virtual int metrics_port() const = 0;  // 0 = off
  virtual int probe_port() const = 0;
};

}  // namespace runtime
