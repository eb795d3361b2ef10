#include "operator/kube/exchange.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace kube {

void Exchange::Headers(int code, std::map<std::string, std::string> headers) {
  absl::MutexLock lock(&mutex_);
  response_.code = code;
  response_.headers = std::move(headers);
  has_headers_ = true;
}

bool Exchange::Gather(std::string_view piece) {
  if (response_.body.size() + piece.size() > max_body_bytes_) {
    status_ = absl::ResourceExhaustedError(absl::StrCat(
        "the answer is larger than ", max_body_bytes_, " bytes; ask for less at once"));
    return false;
  }
  response_.body.append(piece);
  return true;
}

void Exchange::Data(std::string_view piece, Release release) {
  bool go_on = false;
  {
    absl::MutexLock lock(&mutex_);
    if (stream_ && !abandoned_) {
      piece_ = piece;
      release_ = std::move(release);
      return;
    }
    go_on = !abandoned_ && Gather(piece);
  }
  release(go_on);
}

void Exchange::Finish(absl::Status status) {
  absl::MutexLock lock(&mutex_);
  finished_ = true;
  if (status_.ok()) status_ = std::move(status);  // the first reason is the true one
}

absl::Status Exchange::Await(absl::Time deadline) {
  mutex_.AwaitWithDeadline(
      absl::Condition(
          +[](Exchange* self) ABSL_NO_THREAD_SAFETY_ANALYSIS { return self->Ready(); }, this),
      deadline);
  if (stopped_) return absl::CancelledError("stopped");
  if (!Ready()) return absl::DeadlineExceededError("no answer in time");
  return absl::OkStatus();
}

absl::StatusOr<Response> Exchange::Result() {
  if (!status_.ok()) return status_;
  return std::move(response_);
}

absl::StatusOr<Response> Exchange::Wait(absl::Time deadline, std::stop_token stop) {
  const std::stop_callback on_stop(stop, [this] {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  });
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Await(deadline));
  return Result();
}

absl::StatusOr<Response> Exchange::Consume(absl::Duration idle,
                                           const std::function<bool(std::string_view)>& on_data,
                                           std::stop_token stop) {
  const std::stop_callback on_stop(stop, [this] {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  });
  for (;;) {
    std::string_view piece;
    Release release;
    {
      absl::MutexLock lock(&mutex_);
      RETURN_IF_ERROR(Await(absl::Now() + idle));
      if (!release_) return Result();
      piece = piece_;
      release = std::exchange(release_, nullptr);
    }
    bool go_on = false;
    bool ended = false;
    {
      absl::ReleasableMutexLock lock(&mutex_);
      if (response_.code != 200) {
        go_on = Gather(piece);
      } else {
        lock.Release();
        go_on = on_data(piece);
        ended = !go_on;
      }
    }
    release(go_on);
    if (ended) {
      absl::MutexLock lock(&mutex_);
      return Response{response_.code, "", response_.headers};
    }
  }
}

void Exchange::Abandon() {
  Release release;
  {
    absl::MutexLock lock(&mutex_);
    abandoned_ = true;
    release = std::exchange(release_, nullptr);
  }
  if (release) release(false);
}

}  // namespace kube
