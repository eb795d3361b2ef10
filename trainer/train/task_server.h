// What every task but a ps listens with on its own cluster address: the gRPC health service, and
// TaskService of task.proto.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/cluster_spec.h"
#include "trainer/ps/task_tls.h"
#include "trainer/train/task.pb.h"

namespace trainer {

namespace rpc = trainyard::train;

// Serves the sessions of in-graph clients. The methods are called on gRPC's threads and must not
// block: they hand the work over, and `done` is called once, from any thread. `cancelled` becomes
// stop_requested when the client gives up or dies.
class SessionHost {
 public:
  template <typename Response>
  using Done = std::function<void(absl::StatusOr<Response>)>;

  virtual ~SessionHost() = default;
  virtual void StartSession(rpc::StartSessionRequest request, std::stop_token cancelled,
                            Done<rpc::StartSessionResponse> done) = 0;
  virtual void RunSteps(rpc::RunStepsRequest request, std::stop_token cancelled,
                        Done<rpc::RunStepsResponse> done) = 0;
  virtual void EndSession(rpc::EndSessionRequest request, std::stop_token cancelled,
                          Done<rpc::EndSessionResponse> done) = 0;
};

struct TaskServerOptions {
  std::string listen_address;  // "[::]:2222"; port 0 = any free one
  base::Task task;
  uint64_t incarnation = 0;            // 0 = a random one
  bool checking = false;               // told to those who ping
  std::shared_ptr<const TaskTls> tls;  // null = plain text
  SessionHost* sessions = nullptr;     // must outlive the server; null = not a standing server
};

// Thread-safe.
class TaskServer {
 public:
  // Listens. kInvalidArgument naming the address when the port is taken.
  static absl::StatusOr<std::unique_ptr<TaskServer>> Start(const TaskServerOptions& options);
  virtual ~TaskServer() = default;  // stops serving; waiting calls end with kUnavailable

  virtual int port() const = 0;
  virtual uint64_t incarnation() const = 0;

  // This task's own key-value store, as Put and Get of the service see it.
  virtual absl::Status Put(const std::string& key, std::string value) = 0;
  // kNotFound when the key is not there.
  virtual absl::StatusOr<std::string> Get(const std::string& key) = 0;
  // Waits for the key; kDeadlineExceeded when it did not come within `timeout`.
  virtual absl::StatusOr<std::string> WaitFor(const std::string& key, absl::Duration timeout) = 0;

  // Waits until all of `tasks` (names) have pinged this one, at most `timeout` or until `stop`;
  // returns those that have not.
  virtual std::set<std::string> WaitForPings(const std::set<std::string>& tasks,
                                             absl::Duration timeout, std::stop_token stop) = 0;
};

}  // namespace trainer
