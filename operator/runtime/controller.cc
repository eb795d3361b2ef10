#include "operator/runtime/controller.h"

#include <exception>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/log.h"

namespace runtime {
namespace {

class ControllerImpl : public Controller {
 public:
  ControllerImpl(Workqueue* queue, ControllerOptions options)
      : queue_(*queue), options_(std::move(options)) {}

  ~ControllerImpl() override {
    (void)Stop(absl::ZeroDuration());
    absl::MutexLock lock(&start_mutex_);
    threads_.clear();  // joins
  }

  void Start() override {
    absl::MutexLock lock(&start_mutex_);
    if (!threads_.empty() || stop_taking_.stop_requested()) return;
    {
      absl::MutexLock count_lock(&mutex_);
      workers_ = options_.threads;
    }
    for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Work(); });
  }

  bool Stop(absl::Duration grace) override {
    stop_taking_.request_stop();
    const absl::Time deadline = options_.clock->Now() + grace;
    bool ended = false;
    {
      absl::MutexLock lock(&mutex_);
      const auto have_ended = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return workers_ == 0; };
      ended = options_.clock->Await(&mutex_, absl::Condition(&have_ended), deadline);
    }
    if (!ended) stop_passes_.request_stop();
    return ended;
  }

 private:
  void Work() {
    while (const std::optional<std::string> key = queue_.Get(stop_taking_.get_token())) {
      if (options_.on_begin) options_.on_begin();
      const absl::Time begin = options_.clock->Now();
      const Outcome outcome = Reconcile(*key);
      const absl::Duration took = options_.clock->Now() - begin;
      Settle(*key, outcome);
      queue_.Done(*key);
      if (options_.on_pass) options_.on_pass(outcome, took);
    }
    absl::MutexLock lock(&mutex_);
    --workers_;
  }

  // A defect in one pass must not end the others.
  Outcome Reconcile(const std::string& key) {
    try {
      return options_.reconcile(key, stop_passes_.get_token());
    } catch (const std::exception& error) {
      return Outcome::Retry(absl::InternalError(absl::StrCat("defect: exception: ", error.what())));
    } catch (...) {
      return Outcome::Retry(absl::InternalError("defect: exception of an unknown type"));
    }
  }

  void Settle(const std::string& key, const Outcome& outcome) {
    switch (outcome.kind) {
      case Outcome::Kind::kDone:
        queue_.Forget(key);
        return;
      case Outcome::Kind::kRequeueAfter:
        queue_.Forget(key);
        queue_.AddAfter(key, outcome.after, outcome.priority);
        return;
      case Outcome::Kind::kRetry:
        queue_.AddAfterFailure(key, outcome.after);
        LogRetry(key, outcome.error);
        return;
      case Outcome::Kind::kTerminal:
        queue_.Forget(key);
        base::LogError("gave up on a key until it changes",
                       {{"key", key}, {"err", outcome.error.ToString()}});
        return;
    }
  }

  // A conflict is the ordinary way to learn of a newer object, and the first repeat cures it.
  void LogRetry(const std::string& key, const absl::Status& error) {
    const int failures = queue_.failures(key);
    const bool is_ordinary = absl::IsAborted(error) && failures <= 1;
    base::Log(is_ordinary ? base::LogLevel::kDebug : base::LogLevel::kWarning,
              "will try a key again",
              {{"key", key}, {"failures", failures}, {"err", error.ToString()}});
  }

  Workqueue& queue_;
  const ControllerOptions options_;
  std::stop_source stop_taking_;
  std::stop_source stop_passes_;

  absl::Mutex mutex_;
  int workers_ ABSL_GUARDED_BY(mutex_) = 0;

  absl::Mutex start_mutex_;
  std::vector<std::jthread> threads_ ABSL_GUARDED_BY(start_mutex_);
};

}  // namespace

std::unique_ptr<Controller> Controller::Create(Workqueue* queue, ControllerOptions options) {
  return std::make_unique<ControllerImpl>(queue, std::move(options));
}

}  // namespace runtime
