#include "operator/runtime/workqueue.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "operator/runtime/backoff.h"

namespace runtime {
namespace {

constexpr int kMaxPassedOver = 8;  // times in a row, by higher priorities

// What is due: a line for each priority.
class Lines {
 public:
  bool empty() const {
    return std::all_of(lines_.begin(), lines_.end(), [](const Line& l) { return l.keys.empty(); });
  }
  int size() const {
    size_t sum = 0;
    for (const Line& line : lines_) sum += line.keys.size();
    return static_cast<int>(sum);
  }
  // Returns the ticket to Remove it with.
  uint64_t Push(const std::string& key, Priority priority) {
    lines_[static_cast<size_t>(priority)].keys.emplace(++tickets_, key);
    return tickets_;
  }
  void Remove(Priority priority, uint64_t ticket) {
    lines_[static_cast<size_t>(priority)].keys.erase(ticket);
  }
  // REQUIRES: not empty.
  std::string Pop() {
    const size_t chosen = Choose();
    for (size_t i = chosen + 1; i < lines_.size(); ++i) {
      if (!lines_[i].keys.empty()) ++lines_[i].passed_over;
    }
    Line& line = lines_[chosen];
    line.passed_over = 0;
    return std::move(line.keys.extract(line.keys.begin()).mapped());
  }
  void ForEach(const std::function<void(const std::string&)>& visit) const {
    for (const Line& line : lines_) {
      for (const auto& [ticket, key] : line.keys) visit(key);
    }
  }

 private:
  struct Line {
    std::map<uint64_t, std::string> keys;  // by ticket: in the order they came
    int passed_over = 0;
  };

  // The highest that waits, unless a lower one has waited through enough turns.
  size_t Choose() const {
    size_t highest = lines_.size();
    for (size_t i = lines_.size(); i-- > 0;) {
      if (lines_[i].keys.empty()) continue;
      if (lines_[i].passed_over >= kMaxPassedOver) return i;
      highest = i;
    }
    return highest;
  }

  std::array<Line, 3> lines_;  // by Priority
  uint64_t tickets_ = 0;
};

class WorkqueueImpl : public Workqueue {
 public:
  explicit WorkqueueImpl(const WorkqueueOptions& options)
      : options_(options), jitter_(options.seed) {}

  void Add(const std::string& key, Priority priority) override {
    {
      absl::MutexLock lock(&mutex_);
      if (shut_down_) return;
      MakeDue(key, options_.clock->Now(), priority);
    }
    ReportAdds();
  }

  void AddAfter(const std::string& key, absl::Duration delay, Priority priority) override {
    if (delay <= absl::ZeroDuration()) return Add(key, priority);
    {
      absl::MutexLock lock(&mutex_);
      if (shut_down_) return;
      Delay(key, options_.clock->Now() + delay, priority);
    }
    if (options_.observer.on_retry) options_.observer.on_retry();
  }

  void AddAfterFailure(const std::string& key, absl::Duration at_least) override {
    absl::Duration delay;
    {
      absl::MutexLock lock(&mutex_);
      const int failures = ++items_[key].failures;
      delay = std::max(at_least, BackoffDelay(options_.first_backoff, options_.max_backoff,
                                              failures, jitter_.Next()));
    }
    AddAfter(key, delay, Priority::kNormal);
  }

  void Forget(const std::string& key) override {
    absl::MutexLock lock(&mutex_);
    const auto found = items_.find(key);
    if (found == items_.end()) return;
    found->second.failures = 0;
    EraseIfIdle(key);
  }

  std::optional<std::string> Get(std::stop_token stop) override {
    std::string key;
    absl::Duration waited;
    {
      const std::stop_callback wake(stop, [this] { absl::MutexLock lock(&mutex_); });
      absl::MutexLock lock(&mutex_);
      if (!AwaitDue(stop)) return std::nullopt;
      const absl::Time now = options_.clock->Now();
      key = due_.Pop();
      Item& item = items_[key];
      waited = now - item.time;
      item.priority = Priority::kLow;  // until the next wish
      item.state = State::kRunning;
      item.time = now;
      running_.insert(key);
    }
    ReportAdds();
    if (options_.observer.on_get) options_.observer.on_get(waited);
    return key;
  }

  void Done(const std::string& key) override {
    absl::Duration worked;
    {
      absl::MutexLock lock(&mutex_);
      if (running_.erase(key) == 0) return;
      Item& item = items_[key];
      worked = options_.clock->Now() - item.time;
      if (item.state == State::kRunningAndDue) {
        PushDue(key, item, item.due);
      } else {
        item.state = State::kIdle;
        EraseIfIdle(key);
      }
    }
    if (options_.observer.on_done) options_.observer.on_done(worked);
  }

  void ShutDown() override {
    absl::MutexLock lock(&mutex_);
    shut_down_ = true;
  }

  int depth() const override {
    absl::MutexLock lock(&mutex_);
    return due_.size() + CountRipe();
  }

  int delayed() const override {
    absl::MutexLock lock(&mutex_);
    return static_cast<int>(timers_.size()) - CountRipe();
  }

  absl::Duration oldest_wait() const override {
    absl::MutexLock lock(&mutex_);
    absl::Time oldest = NextTimer();
    due_.ForEach([&](const std::string& key) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      oldest = std::min(oldest, items_.at(key).time);
    });
    return std::max(absl::ZeroDuration(), options_.clock->Now() - oldest);
  }

  int failures(const std::string& key) const override {
    absl::MutexLock lock(&mutex_);
    const auto found = items_.find(key);
    return found == items_.end() ? 0 : found->second.failures;
  }

  int running() const override {
    absl::MutexLock lock(&mutex_);
    return static_cast<int>(running_.size());
  }

  absl::Duration longest_running() const override {
    absl::Duration longest;
    for (const absl::Duration age : RunningAges()) longest = std::max(longest, age);
    return longest;
  }

  absl::Duration unfinished_work() const override {
    absl::Duration sum;
    for (const absl::Duration age : RunningAges()) sum += age;
    return sum;
  }

 private:
  enum class State { kIdle, kDue, kRunning, kRunningAndDue };
  struct Item {
    State state = State::kIdle;
    absl::Time time;                          // kDue: since when; kRunning…: since when
    absl::Time due = absl::InfiniteFuture();  // its entry in timers_; kRunningAndDue: since when
    int failures = 0;
    Priority priority = Priority::kLow;  // the highest wished for since it was last taken
    uint64_t ticket = 0;                 // kDue: its place in due_
  };

  void MakeDue(const std::string& key, absl::Time since, Priority priority)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Item& item = items_[key];
    ClearTimer(key, item);
    Raise(key, item, priority);
    if (item.state == State::kIdle) {
      PushDue(key, item, since);
    } else if (item.state == State::kRunning) {
      item.state = State::kRunningAndDue;
      item.due = since;
    } else {
      return;
    }
    ++unreported_adds_;
  }

  void PushDue(const std::string& key, Item& item, absl::Time since)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    item.state = State::kDue;
    item.time = since;
    item.due = absl::InfiniteFuture();
    item.ticket = due_.Push(key, item.priority);
  }

  // A key that waits moves to the end of the higher line.
  void Raise(const std::string& key, Item& item, Priority priority)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (priority >= item.priority) return;
    const Priority before = std::exchange(item.priority, priority);
    if (item.state != State::kDue) return;
    due_.Remove(before, item.ticket);
    item.ticket = due_.Push(key, priority);
  }

  void ReportAdds() {
    if (!options_.observer.on_add) return;
    int adds = 0;
    {
      absl::MutexLock lock(&mutex_);
      adds = std::exchange(unreported_adds_, 0);
    }
    for (; adds > 0; --adds) options_.observer.on_add();
  }

  void Delay(const std::string& key, absl::Time due, Priority priority)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Item& item = items_[key];
    Raise(key, item, priority);
    if (item.state == State::kDue || item.state == State::kRunningAndDue || item.due <= due) return;
    ClearTimer(key, item);
    item.due = due;
    timers_.emplace(due, key);
  }

  void ClearTimer(const std::string& key, Item& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (item.state == State::kRunningAndDue || item.due == absl::InfiniteFuture()) return;
    timers_.erase({item.due, key});
    item.due = absl::InfiniteFuture();
  }

  void PromoteDue(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (!timers_.empty() && timers_.begin()->first <= now) {
      const auto [since, key] = *timers_.begin();
      MakeDue(key, since, Priority::kLow);  // as it was wished for
    }
  }

  // Keys whose time has come although no worker has looked yet.
  int CountRipe() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Time now = options_.clock->Now();
    int ripe = 0;
    for (const auto& [due, key] : timers_) {
      if (due > now) break;
      if (items_.at(key).state == State::kIdle) ++ripe;
    }
    return ripe;
  }

  absl::Time NextTimer() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return timers_.empty() ? absl::InfiniteFuture() : timers_.begin()->first;
  }

  // Returns whether a key is due; false when there will be none. Of the workers that wait one
  // keeps an eye on the timers, the others on what is due only.
  bool AwaitDue(const std::stop_token& stop) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (;;) {
      if (shut_down_ || stop.stop_requested()) return false;
      PromoteDue(options_.clock->Now());
      if (!due_.empty()) return true;
      const bool keeps_time = !has_timekeeper_;
      const absl::Time next = keeps_time ? NextTimer() : absl::InfiniteFuture();
      if (keeps_time) has_timekeeper_ = true;
      const auto is_over = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        if (shut_down_ || stop.stop_requested() || !due_.empty()) return true;
        return keeps_time ? NextTimer() < next : !has_timekeeper_;
      };
      (void)options_.clock->Await(&mutex_, absl::Condition(&is_over), next);
      if (keeps_time) has_timekeeper_ = false;
    }
  }

  void EraseIfIdle(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = items_.find(key);
    if (found == items_.end()) return;
    const Item& item = found->second;
    if (item.state == State::kIdle && item.due == absl::InfiniteFuture() && item.failures == 0) {
      items_.erase(found);
    }
  }

  std::vector<absl::Duration> RunningAges() const {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = options_.clock->Now();
    std::vector<absl::Duration> ages;
    ages.reserve(running_.size());
    for (const std::string& key : running_) ages.push_back(now - items_.at(key).time);
    return ages;
  }

  const WorkqueueOptions options_;

  mutable absl::Mutex mutex_;
  Jitter jitter_ ABSL_GUARDED_BY(mutex_);
  // Every key that is due, running, delayed or has failed.
  std::unordered_map<std::string, Item> items_ ABSL_GUARDED_BY(mutex_);
  Lines due_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<absl::Time, std::string>> timers_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> running_ ABSL_GUARDED_BY(mutex_);
  int unreported_adds_ ABSL_GUARDED_BY(mutex_) = 0;
  bool has_timekeeper_ ABSL_GUARDED_BY(mutex_) = false;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::unique_ptr<Workqueue> Workqueue::Create(const WorkqueueOptions& options) {
  return std::make_unique<WorkqueueImpl>(options);
}

}  // namespace runtime
