// What a parameter server does with an Exchange, whichever way it came: checks it, asks the store,
// fills in the reply. Knows no transport.
#pragma once

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "trainer/ps/param_server.pb.h"
#include "trainer/ps/store.h"
#include "trainer/ps/tensor.h"

namespace trainer {

// values: what the transport puts behind the reply's header, as reply.element_type(); may be null.
using ExchangeDone =
    absl::AnyInvocable<void(absl::Status status, wire::ExchangeReply reply, SharedBuffer values)>;

// Thread-safe. The store and the clock must outlive it.
class ExchangeHandler {
 public:
  ExchangeHandler(Store* store, base::Clock* clock, uint64_t incarnation, int shard)
      : store_(store), clock_(clock), incarnation_(incarnation), shard_(shard) {}

  // Reads `payload` before it returns; `done` may be called later, on any thread.
  void Handle(const wire::ExchangeRequest& request, const TensorSource& payload, ExchangeDone done);
  // The caller of `request` is gone. No effect if it was answered.
  void Cancel(const wire::ExchangeRequest& request);

  // kUnavailable unless `expected` is this process (0 = any).
  absl::Status CheckIncarnation(uint64_t expected) const;

 private:
  absl::Status Check(const wire::ExchangeRequest& request) const;

  Store* const store_;
  base::Clock* const clock_;
  const uint64_t incarnation_;
  const int shard_;
};

}  // namespace trainer
