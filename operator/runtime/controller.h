// Workers that take keys from the queue and reconcile them. Knows no TFJob.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "operator/runtime/workqueue.h"

namespace runtime {

// What becomes of a key. Exactly one of four: done; again after a time; again after a back-off
// (something may pass); never again until it changes (it will not pass by itself).
struct Outcome {
  enum class Kind { kDone, kRequeueAfter, kRetry, kTerminal };
  Kind kind = Kind::kDone;
  absl::Duration after;                   // kRequeueAfter; kRetry: at least (Retry-After)
  absl::Status error;                     // kRetry, kTerminal
  Priority priority = Priority::kNormal;  // kRequeueAfter
  static Outcome Done() { return {}; }
  static Outcome RequeueAfter(absl::Duration after, Priority priority = Priority::kNormal) {
    return {Kind::kRequeueAfter, after, {}, priority};
  }
  static Outcome Retry(absl::Status error, absl::Duration at_least = absl::ZeroDuration()) {
    return {Kind::kRetry, at_least, std::move(error)};
  }
  static Outcome Terminal(absl::Status error) { return {Kind::kTerminal, {}, std::move(error)}; }
};

struct ControllerOptions {
  int threads = 8;
  // An exception out of it counts as kRetry. `stop` is requested when the grace of Stop is over or
  // the controller is destroyed: end early then.
  std::function<Outcome(const std::string& key, std::stop_token stop)> reconcile;
  // Called before and after each pass, for metrics.
  std::function<void()> on_begin;
  std::function<void(const Outcome& outcome, absl::Duration took)> on_pass;
  base::Clock* clock = base::Clock::Steady();
};

// Thread-safe. The queue outlives it.
class Controller {
 public:
  virtual ~Controller() = default;  // stops and joins
  static std::unique_ptr<Controller> Create(Workqueue* queue, ControllerOptions options);
  virtual void Start() = 0;
  // Takes no more keys; waits until passes under way have ended, at most `grace` by the options'
  // clock. Those that have not are asked to stop. Returns whether all have ended.
  virtual bool Stop(absl::Duration grace) = 0;
};

}  // namespace runtime
