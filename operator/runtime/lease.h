// One candidate's view of the lease, try by try: when to take it, when it is held, when it is lost.
// No threads, no sleeps.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "operator/runtime/leader.h"

namespace runtime {

// Not thread-safe.
//
// Clocks of different machines are never compared. What counts is when this process itself saw the
// lease change: a holder that has not renewed it for the lease's duration since then is gone. A
// holder counts its renewal from before it was sent, so it stops before anybody takes over.
class Lease {
 public:
  Lease(kube::Client* client, const LeaderOptions& options);

  // Takes the lease if it is free, renews it if it is ours. OK: held now. Else not renewed by this
  // try, and why; kFailedPrecondition: another one holds it. `stop` ends reads only: a write that
  // is broken off may have been done.
  absl::Status TryAcquireOrRenew(const std::stop_token& stop);
  // Gives it up if it is held: the holder's name is removed, so that others take it at once.
  absl::Status Release();

  // Until when writes are safe; InfinitePast: not held.
  absl::Time may_write_until() const { return may_write_until_; }
  // Until when another holder is respected; InfinitePast: nobody else holds it.
  absl::Time taken_until() const;
  const std::string& holder() const { return holder_; }  // as last seen; "" = nobody

 private:
  absl::Status Look(const std::stop_token& stop);
  absl::Status WriteOurs();
  absl::StatusOr<kube::Json> Write(const kube::Json& object);
  void Observe(const kube::Json& object);
  bool IsOurs() const { return holder_ == options_.identity; }
  kube::Json Ours() const;
  kube::Json GivenUp() const;
  std::string WallTime() const;

  kube::Client& client_;
  const LeaderOptions options_;

  std::optional<kube::Json> object_;  // as last read or written; nullopt: look first
  kube::Json spec_;                   // as last seen; like the next three kept if it is deleted
  std::string holder_;
  absl::Duration duration_;  // that the holder promised
  absl::Time observed_ = absl::InfinitePast();
  absl::Time may_write_until_ = absl::InfinitePast();
};

}  // namespace runtime
