// A client's gRPC connection to one parameter server: the data exchange, and calls of the control
// methods. Calls are polled by the threads that wait for them, so that a step costs no thread
// switch in the worker.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <google/protobuf/message_lite.h>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "trainer/ps/link.h"
#include "trainer/ps/task_tls.h"
#include "trainer/ps/tensor.h"

namespace trainer {

// A call of a control method under way. Wait for it before the reply is destroyed.
class PendingCall {
 public:
  virtual ~PendingCall() = default;
  virtual absl::Status Wait() = 0;
};

class GrpcLink : public Link {
 public:
  // `type`: of gradients and variables on the wire. Connects in the background.
  static std::unique_ptr<GrpcLink> Create(const std::string& address, ElementType type,
                                          std::shared_ptr<const TaskTls> tls);

  // Which elements of the flat buffer this server holds. REQUIRES: no exchange in progress.
  virtual void SetLayout(Shard layout) = 0;

  // Thread-safe. `reply` is filled in when Wait returns OK.
  virtual std::unique_ptr<PendingCall> Call(const std::string& method,
                                            const google::protobuf::MessageLite& request,
                                            google::protobuf::MessageLite* reply,
                                            absl::Time deadline) = 0;

  // Starts over with a new connection if the present one does not stand and was made more than a
  // few seconds ago: gRPC looks up a name that did not resolve less and less often. Thread-safe.
  virtual void Reconnect() = 0;
};

}  // namespace trainer
