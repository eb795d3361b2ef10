// What a watcher does, step by step: a page of the list, or one watch, and how long to pause after
// it. No threads, no sleeps.
#pragma once

#include <atomic>
#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "operator/runtime/backoff.h"
#include "operator/runtime/log_throttle.h"
#include "operator/runtime/watcher.h"

namespace runtime {

// What to do about a failed list or watch, for people: the missing RBAC rule, the missing
// CustomResourceDefinition; "" where there is nothing to say.
std::string AdviceFor(const absl::Status& status, const WatcherOptions& options);

// Step is for one thread; the rest is thread-safe.
class ListWatch {
 public:
  enum class State { kListing, kWatching };
  struct Pause {
    absl::Duration time;  // zero = none
    std::string why;
  };

  ListWatch(kube::Client* client, const WatcherOptions& options, WatchSink* sink);

  // Lists one page, or watches until the watch ends (blocks; ends early when `stop` is requested).
  Pause Step(const std::stop_token& stop);

  State state() const { return state_; }
  bool synced() const { return lists_ > 0; }
  int64_t lists() const { return lists_; }
  int64_t restarts() const { return restarts_; }

 private:
  Pause ListOnePage(const std::stop_token& stop);
  Pause AfterFailedPage(const absl::Status& status);
  Pause WatchOnce(const std::stop_token& stop);
  Pause AfterFailedWatch(const absl::Status& status);
  void OnEvent(kube::WatchEvent& event);
  void OnAlive();
  void StartOver();
  Pause Fail(const absl::Status& status);
  template <typename Call>
  void Contain(const kube::Json& object, const Call& call);

  kube::Client& client_;
  const WatcherOptions options_;
  WatchSink& sink_;
  Jitter jitter_;
  LogThrottle throttle_;

  std::atomic<State> state_ = State::kListing;
  std::atomic<int64_t> lists_ = 0;
  std::atomic<int64_t> restarts_ = 0;
  std::string continue_token_;    // of the next page; empty = the list begins
  std::string resource_version_;  // where the next watch begins
  int failures_ = 0;              // in a row, of lists and watches
  int failed_pages_ = 0;          // in a row, of the same page
  int failed_watches_ = 0;        // in a row, since the list
  int expired_ = 0;               // times 410, since a watch was alive
  bool in_trouble_ = false;       // said so in the log
};

}  // namespace runtime
