// Calls to other tasks: channels that notice a task that comes, goes or hangs, health probes, and
// the key-value store of another task's TaskServer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/ps/message.h"
#include "trainer/ps/task_tls.h"
#include "trainer/train/task.grpc.pb.h"

namespace trainer {

namespace rpc = trainyard::train;

// A channel to "host:port". It looks the name up again and reconnects within about a second,
// ignores HTTP proxies, and finds within 20 s that a peer has stopped answering during a call.
// `tls`: null = plain text.
std::shared_ptr<grpc::Channel> TaskChannel(const std::string& address,
                                           const TaskTls* tls = nullptr);

// Why a call to a task failed, in a few words for a person: "the name does not resolve",
// "connection refused", "no answer in time"; else gRPC's own text. `tls`: the caller's own.
std::string WhyUnreachable(const absl::Status& status, const TaskTls* tls = nullptr);

struct Probe {
  absl::Status status;        // OK: its health service says SERVING
  absl::Duration round_trip;  // where OK
};

// Asks the standard health service (grpc.health.v1) of every address at once.
std::vector<Probe> ProbeHealth(std::span<const std::string> addresses, absl::Duration timeout,
                               const TaskTls* tls = nullptr);

// One other task. Thread-safe.
class TaskClient {
 public:
  explicit TaskClient(const std::string& address, const TaskTls* tls = nullptr);

  Probe CheckHealth(absl::Duration timeout);
  absl::StatusOr<rpc::PingResponse> Ping(const std::string& own_task, absl::Duration timeout);
  absl::Status Put(const std::string& key, std::string value, absl::Duration timeout);
  // Waits for the key; kDeadlineExceeded when it did not come within `timeout`.
  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout);

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<rpc::TaskService::Stub> stub_;
};

}  // namespace trainer
