// One HTTP exchange between the thread that asked and the HTTP library's threads: who waits, for
// how long, who holds which bytes. Knows no library.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "operator/kube/transport.h"

namespace kube {

// Thread-safe. Shared by the asking thread, which may leave at any time, and the library, which may
// come back late.
class Exchange {
 public:
  // Tells the library that a piece is used up (true) or that no more is wanted (false). Called
  // once.
  using Release = std::function<void(bool go_on)>;

  // Streams hand on pieces of a 200 answer; all other bodies are gathered, at most max_body_bytes.
  Exchange(bool stream, size_t max_body_bytes) : stream_(stream), max_body_bytes_(max_body_bytes) {
    absl::MutexLock lock(&mutex_);  // what follows in other threads comes after it
  }

  // --- for the library's threads
  void Headers(int code, std::map<std::string, std::string> headers);
  // `piece` stays valid until `release` is called, here or later by the waiting thread: a slow
  // reader slows the sender down.
  void Data(std::string_view piece, Release release);
  // The answer is complete, or broke (not OK).
  void Finish(absl::Status status);

  // --- for the asking thread
  // Until the whole answer is there, `deadline` passed or stop was requested.
  absl::StatusOr<Response> Wait(absl::Time deadline, std::stop_token stop);
  // Calls on_data for each piece of a 200 answer; ends when it returns false, when the answer ends,
  // when nothing came for `idle`, or when stop was requested.
  absl::StatusOr<Response> Consume(absl::Duration idle,
                                   const std::function<bool(std::string_view)>& on_data,
                                   std::stop_token stop);
  // Nobody waits any more: later pieces are refused.
  void Abandon();

 private:
  bool Ready() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopped_ || finished_ || (release_ && has_headers_);
  }
  // kCancelled or kDeadlineExceeded unless something is Ready.
  absl::Status Await(absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds to the body; false when it is full.
  bool Gather(std::string_view piece) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Response> Result() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const bool stream_;
  const size_t max_body_bytes_;

  absl::Mutex mutex_;
  bool has_headers_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  Response response_ ABSL_GUARDED_BY(mutex_);
  std::string_view piece_ ABSL_GUARDED_BY(mutex_);
  Release release_ ABSL_GUARDED_BY(mutex_);  // of piece_; empty = no piece waits
};

}  // namespace kube
