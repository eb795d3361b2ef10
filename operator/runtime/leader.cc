#include "operator/runtime/leader.h"

#include <algorithm>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/log.h"
#include "operator/runtime/backoff.h"
#include "operator/runtime/lease.h"
#include "operator/runtime/log_throttle.h"

namespace runtime {
namespace {

class LeaderElectorImpl : public LeaderElector {
 public:
  LeaderElectorImpl(kube::Client* client, const LeaderOptions& options)
      : options_(options),
        clock_(*options.clock),
        lease_(client, options),
        jitter_(options.seed),
        throttle_(options.clock) {}

  absl::Status Run(const std::function<void()>& on_leading, const std::function<void()>& stopping,
                   std::stop_token stop) override {
    const std::stop_callback wake(stop, [this] { absl::MutexLock lock(&mutex_); });
    if (!Acquire(stop)) return absl::OkStatus();
    base::LogInfo("leading", {{"lease", What()}, {"identity", options_.identity}});
    on_leading();
    return Lead(stopping, stop);
  }

  bool may_write() const override {
    absl::MutexLock lock(&mutex_);
    return clock_.Now() < may_write_until_;
  }

  std::string holder() const override {
    absl::MutexLock lock(&mutex_);
    return holder_;
  }

 private:
  std::string What() const { return absl::StrCat(options_.ns, "/", options_.name); }

  // Returns false when stopped.
  bool Acquire(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const absl::Status status = Try(stop);
      if (status.ok()) return true;
      if (stop.stop_requested()) break;
      if (absl::IsFailedPrecondition(status)) {
        LogHolder();
      } else {
        LogFailure("cannot take the lease", status);
      }
      // With jitter, as all that wait for one lease would otherwise ask at the same moment. More
      // often than the holder renews, and again just when its time is over: what is seen late or
      // tried late is time without a leader.
      const absl::Time now = clock_.Now();
      absl::Time next_try = now + options_.retry_period / 2 * (1.0 + 0.2 * jitter_.Next());
      if (lease_.taken_until() > now) next_try = std::min(next_try, lease_.taken_until());
      absl::MutexLock lock(&mutex_);
      const auto is_stopped = [&stop] { return stop.stop_requested(); };
      (void)clock_.Await(&mutex_, absl::Condition(&is_stopped), next_try);
    }
    return false;
  }

  // Renews until the lease is lost, or until `stopping` is through after a stop.
  absl::Status Lead(const std::function<void()>& stopping, const std::stop_token& stop) {
    std::jthread stopper;
    SetStopped(false);
    absl::Status status;
    for (absl::Time next_try = clock_.Now() + options_.retry_period;;) {
      const absl::Time until = lease_.may_write_until();
      const bool is_stopping = stopper.joinable();
      AwaitEvent(std::min(next_try, until), stop, is_stopping);
      if (is_stopping && has_stopped()) return GiveUp();
      if (stop.stop_requested() && !is_stopping) {
        stopper = std::jthread([this, &stopping] {
          stopping();
          SetStopped(true);
        });
        continue;
      }
      const absl::Time now = clock_.Now();
      if (now >= until) return Lost(status, stopping, stopper);
      if (now < next_try) continue;
      status = Try({});
      if (absl::IsFailedPrecondition(status)) return Lost(status, stopping, stopper);
      if (!status.ok()) LogFailure("cannot renew the lease", status);
      next_try = clock_.Now() + options_.retry_period;
    }
  }

  void AwaitEvent(absl::Time deadline, const std::stop_token& stop, bool is_stopping) {
    absl::MutexLock lock(&mutex_);
    const auto has_event = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return is_stopping ? has_stopped_ : stop.stop_requested();
    };
    (void)clock_.Await(&mutex_, absl::Condition(&has_event), deadline);
  }

  absl::Status GiveUp() {
    {
      absl::MutexLock lock(&mutex_);
      may_write_until_ = absl::InfinitePast();
    }
    const absl::Status status = lease_.Release();
    Publish();
    if (status.ok()) {
      base::LogInfo("gave up the lease", {{"lease", What()}});
    } else {
      base::LogWarning("could not give up the lease; it runs out by itself",
                       {{"lease", What()}, {"err", status.ToString()}});
    }
    return absl::OkStatus();
  }

  absl::Status Lost(const absl::Status& why, const std::function<void()>& stopping,
                    std::jthread& stopper) {
    Publish();
    const absl::Status status = absl::AbortedError(
        absl::StrCat("lost the lease ", What(), ": ",
                     why.ok() ? "it could not be renewed in time" : std::string(why.message())));
    base::LogError("no longer leading", {{"lease", What()}, {"err", status.ToString()}});
    if (stopper.joinable()) {
      stopper.join();
    } else {
      stopping();
    }
    return status;
  }

  absl::Status Try(const std::stop_token& stop) {
    absl::Status status = lease_.TryAcquireOrRenew(stop);
    Publish();
    return status;
  }

  void Publish() {
    absl::MutexLock lock(&mutex_);
    may_write_until_ = lease_.may_write_until();
    holder_ = lease_.holder();
  }

  void LogHolder() {
    if (!throttle_.Allows(absl::StrCat("holder ", lease_.holder()))) return;
    base::LogInfo("waiting for the lease", {{"lease", What()}, {"holder", lease_.holder()}});
  }

  void LogFailure(std::string_view what, const absl::Status& status) {
    if (!throttle_.Allows(absl::StatusCodeToString(status.code()))) return;
    const bool is_forbidden = absl::IsPermissionDenied(status);
    base::LogWarning(
        what, {{"lease", What()},
               {"err", status.ToString()},
               {"advice", is_forbidden ? "RBAC: the Role of this process's service account needs "
                                         "the rule {apiGroups: [\"coordination.k8s.io\"], "
                                         "resources: [\"leases\"], verbs: [\"get\", \"create\", "
                                         "\"update\"]} in the lease's namespace"
                                       : ""}});
  }

  void SetStopped(bool has_stopped) {
    absl::MutexLock lock(&mutex_);
    has_stopped_ = has_stopped;
  }
  bool has_stopped() const {
    absl::MutexLock lock(&mutex_);
    return has_stopped_;
  }

  const LeaderOptions options_;
  base::Clock& clock_;
  // Of the thread in Run.
  Lease lease_;
  Jitter jitter_;
  LogThrottle throttle_;

  mutable absl::Mutex mutex_;
  absl::Time may_write_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::string holder_ ABSL_GUARDED_BY(mutex_);
  bool has_stopped_ ABSL_GUARDED_BY(mutex_) = false;  // `stopping` is through
};

}  // namespace

std::unique_ptr<LeaderElector> LeaderElector::Create(kube::Client* client,
                                                     const LeaderOptions& options) {
  return std::make_unique<LeaderElectorImpl>(client, options);
}

}  // namespace runtime
