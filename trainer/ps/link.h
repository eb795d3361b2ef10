// A client's way to one parameter server: the data exchange, by one transport or another.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "trainer/ps/param_server.pb.h"
#include "trainer/ps/partition.h"
#include "trainer/ps/tensor.h"

namespace trainer {

// At most one exchange at a time. Not thread-safe except Cancel.
class Link {
 public:
  virtual ~Link() = default;

  // Sends `request` with this shard's elements of `gradients` (the flat buffer; empty = none)
  // behind it, and returns without waiting. `owner`: the buffer that `gradients` is, if nobody will
  // write it again before its last reference has gone; null = the elements are copied.
  virtual void Start(const wire::ExchangeRequest& request, std::span<const float> gradients,
                     const SharedBuffer& owner, absl::Time deadline) = 0;

  // Waits for the answer to what was started. Puts the variables that come with it in their places
  // in `parameters` (the flat buffer; empty = none expected).
  virtual absl::Status Finish(wire::ExchangeReply* reply, std::span<float> parameters) = 0;

  // Ends the exchange in progress, if any, early; Finish then returns kCancelled. Thread-safe.
  virtual void Cancel() = 0;

  virtual int64_t bytes_sent() const = 0;
  virtual int64_t bytes_received() const = 0;
};

}  // namespace trainer
