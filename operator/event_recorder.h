// Sends events about jobs, once each, behind the writes that matter: never blocks its callers,
// holds events back while writes are under way, drops the newest when its queue is full.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"
#include "operator/kube/client.h"
#include "operator/reconcile/plan.h"

namespace tfjob {

struct EventRecorderOptions {
  base::Clock* clock = base::Clock::Real();
  std::string instance;  // of this operator: host name
  int max_queue = 10'000;
  int max_remembered = 4'096;                      // events known as sent, for counting repeats
  absl::Duration hold = absl::Seconds(2);          // an event waits at most so long for writes
  absl::Duration repeat_every = absl::Minutes(5);  // a repeated one is counted at most so often
};

struct EventCounters {
  int64_t sent = 0;
  int64_t repeated = 0;  // counted on an event that was there already
  int64_t dropped = 0;   // queue full
  int64_t failed = 0;    // refused by the API server
};

// Thread-safe.
class EventRecorder {
 public:
  virtual ~EventRecorder() = default;  // stops without sending what is left
  // `client` outlives it.
  static std::unique_ptr<EventRecorder> Create(kube::Client* client, EventRecorderOptions options);

  virtual void Record(const ObjectMeta& job, const Event& event) = 0;
  // While writes are under way events are held back.
  virtual void WriteBegins() = 0;
  virtual void WriteEnds() = 0;
  // Sends what is queued, at most until `deadline`; true if all is sent.
  virtual bool Flush(absl::Time deadline) = 0;
  virtual EventCounters counters() const = 0;
  virtual int queued() const = 0;
};

}  // namespace tfjob
