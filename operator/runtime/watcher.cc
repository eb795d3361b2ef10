#include "operator/runtime/watcher.h"

#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "operator/runtime/list_watch.h"

namespace runtime {
namespace {

class WatcherImpl : public Watcher {
 public:
  WatcherImpl(kube::Client* client, const WatcherOptions& options, WatchSink* sink)
      : clock_(*options.clock), cycle_(client, options, sink) {}

  ~WatcherImpl() override {
    absl::MutexLock lock(&start_mutex_);
    thread_ = {};  // stops and joins
  }

  void Start() override {
    absl::MutexLock lock(&start_mutex_);
    if (thread_.joinable()) return;
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) Pause(cycle_.Step(stop), stop);
    });
  }

  bool synced() const override { return cycle_.synced(); }
  int64_t lists() const override { return cycle_.lists(); }
  int64_t restarts() const override { return cycle_.restarts(); }

  std::string state() const override {
    absl::MutexLock lock(&mutex_);
    if (!waiting_.empty()) return waiting_;
    return cycle_.state() == ListWatch::State::kListing ? "listing" : "watching";
  }

 private:
  void Pause(const ListWatch::Pause& pause, const std::stop_token& stop) {
    if (pause.time <= absl::ZeroDuration()) return;
    const std::stop_callback wake(stop, [this] { absl::MutexLock lock(&mutex_); });
    absl::MutexLock lock(&mutex_);
    waiting_ = absl::StrCat("waiting ",
                            absl::FormatDuration(absl::Trunc(pause.time, absl::Milliseconds(1))),
                            ": ", pause.why);
    const auto is_stopped = [&stop] { return stop.stop_requested(); };
    (void)clock_.Await(&mutex_, absl::Condition(&is_stopped), clock_.Now() + pause.time);
    waiting_.clear();
  }

  base::Clock& clock_;
  ListWatch cycle_;

  mutable absl::Mutex mutex_;
  std::string waiting_ ABSL_GUARDED_BY(mutex_);  // empty = it does not

  absl::Mutex start_mutex_;
  std::jthread thread_ ABSL_GUARDED_BY(start_mutex_);
};

}  // namespace

std::unique_ptr<Watcher> Watcher::Create(kube::Client* client, const WatcherOptions& options,
                                         WatchSink* sink) {
  return std::make_unique<WatcherImpl>(client, options, sink);
}

}  // namespace runtime
