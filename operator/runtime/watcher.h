// Follows one resource: lists it in pages, watches it from there, and hands every change on. Starts
// over where the server says 410, reconnects with jitter where it went away.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"
#include "operator/kube/client.h"

namespace runtime {

struct WatcherOptions {
  kube::Resource resource;
  std::string ns;  // "" = all
  std::string label_selector;
  absl::Duration first_retry = absl::Milliseconds(200);
  absl::Duration max_retry = absl::Seconds(30);
  int page_size = 500;  // objects a page of the list: what is in memory at once
  base::Clock* clock = base::Clock::Steady();
  uint64_t seed = 0;  // of the jitter; 0 = another one each time
};

// Gets changes, one call at a time. An exception out of it is logged with the object's name; the
// rest goes on.
class WatchSink {
 public:
  virtual ~WatchSink() = default;
  virtual void OnObject(kube::Json& object) = 0;  // new or changed; may be taken apart
  virtual void OnDeleted(const kube::Json& object) = 0;
  // A list begins; then OnObject for each; at its end everything not named since is gone. It may
  // begin again without having ended: then it starts over.
  virtual void OnListBegin() = 0;
  virtual void OnListEnd() = 0;
};

// Thread-safe. One thread of its own.
class Watcher {
 public:
  virtual ~Watcher() = default;  // stops
  static std::unique_ptr<Watcher> Create(kube::Client* client, const WatcherOptions& options,
                                         WatchSink* sink);
  virtual void Start() = 0;
  virtual bool synced() const = 0;  // the first list is complete
  // For /debug and metrics: "listing", "watching", "waiting 3s: connection refused".
  virtual std::string state() const = 0;
  virtual int64_t lists() const = 0;     // complete ones
  virtual int64_t restarts() const = 0;  // watches that ended, for whatever reason
};

}  // namespace runtime
