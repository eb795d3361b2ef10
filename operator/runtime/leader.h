// Leader election by a Lease (coordination.k8s.io/v1), as client-go does it: same object, same
// fields, so that old and new operators of one lease name exclude each other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "operator/kube/client.h"

namespace runtime {

struct LeaderOptions {
  std::string ns;
  std::string name;      // of the Lease
  std::string identity;  // of this process: host name and a random part
  absl::Duration lease_duration = absl::Seconds(15);
  absl::Duration renew_deadline = absl::Seconds(10);
  absl::Duration retry_period = absl::Seconds(2);
  // All decisions are by this one. It must run evenly: may_write is only as true as it is.
  base::Clock* clock = base::Clock::Steady();
  // The times written into the lease, for people; nobody decides by them.
  base::Clock* wall_clock = base::Clock::Real();
  uint64_t seed = 0;  // of the jitter; 0 = another one each time

  // What is wrong with these, one problem a line; OK = nothing.
  absl::Status Validate() const;
};

// Thread-safe; Run by one thread at a time.
class LeaderElector {
 public:
  virtual ~LeaderElector() = default;
  // `client` must not itself ask may_write before its writes, or no lease is ever taken; its call
  // time-out is best at half of renew_deadline and its max_retries 0 (the elector tries again by
  // itself), so that one call that hangs costs no lease.
  static std::unique_ptr<LeaderElector> Create(kube::Client* client, const LeaderOptions& options);
  // Blocks: waits for the lease, calls on_leading (which starts work and returns), renews. Ends in
  // one of two ways, in both of which `stopping` has been called if on_leading was; it ends that
  // work and waits for it:
  //   OK        `stop` was requested. Renewals go on while `stopping` runs; then the lease is given
  //             up, so that the next leader need not wait for it to run out.
  //   kAborted  the lease was lost. may_write is false from before `stopping` is called.
  virtual absl::Status Run(const std::function<void()>& on_leading,
                           const std::function<void()>& stopping, std::stop_token stop) = 0;
  // True from the moment the lease is held until it could have been taken by another: the last
  // renewal + renew_deadline. Asked before every write.
  virtual bool may_write() const = 0;
  virtual std::string holder() const = 0;  // as last seen
};

}  // namespace runtime
