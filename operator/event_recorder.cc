#include "operator/event_recorder.h"

#include <deque>
#include <stop_token>
#include <thread>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/log.h"
#include "operator/api/names.h"

namespace tfjob {
namespace {

constexpr int kTries = 3;

// Small: a burst of jobs queues thousands.
struct Queued {
  std::string ns, job, uid;
  Event event;
  absl::Time since;
};

struct Sent {
  int count = 1;
  absl::Time last_write;
};

// One name for what is the same, so that a restarted operator finds it again: FNV-1a.
std::string EventName(const Queued& queued) {
  uint64_t hash = 14695981039346656037ULL;
  const Event& event = queued.event;
  for (const std::string* part : {&queued.uid, &event.type, &event.reason, &event.message}) {
    for (const char c : *part) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    }
    hash = (hash ^ 0xff) * 1099511628211ULL;
  }
  return absl::StrCat(queued.job, ".", absl::Hex(hash, absl::kZeroPad16));
}

Json EventObject(const Queued& queued, const std::string& name, const std::string& instance) {
  const std::string time = base::TimeText(queued.since);
  return {{"apiVersion", "v1"},
          {"kind", "Event"},
          {"metadata", {{"name", name}, {"namespace", queued.ns}}},
          {"involvedObject",
           {{"apiVersion", kApiVersion},
            {"kind", kKind},
            {"namespace", queued.ns},
            {"name", queued.job},
            {"uid", queued.uid}}},
          {"type", queued.event.type},
          {"reason", queued.event.reason},
          {"message", queued.event.message},
          {"source", {{"component", kOperatorName}}},
          {"reportingComponent", kOperatorName},
          {"reportingInstance", instance},
          {"firstTimestamp", time},
          {"lastTimestamp", time},
          {"count", 1}};
}

class EventRecorderImpl : public EventRecorder {
 public:
  EventRecorderImpl(kube::Client* client, EventRecorderOptions options)
      : client_(*client), options_(std::move(options)), thread_([this] { Run(); }) {}

  ~EventRecorderImpl() override {
    stop_.request_stop();
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }

  void Record(const ObjectMeta& job, const Event& event) override {
    Queued queued{job.namespace_name, job.name, job.uid, event, options_.clock->Now()};
    absl::MutexLock lock(&mutex_);
    if (static_cast<int>(queue_.size()) >= options_.max_queue) {
      ++counters_.dropped;
      return;
    }
    queue_.push_back(std::move(queued));
  }

  void WriteBegins() override {
    absl::MutexLock lock(&mutex_);
    ++writes_;
  }
  void WriteEnds() override {
    absl::MutexLock lock(&mutex_);
    --writes_;
  }

  bool Flush(absl::Time deadline) override {
    absl::MutexLock lock(&mutex_);
    flushing_ = true;
    const auto all_sent = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return queue_.empty() && !sending_;
    };
    const bool done = options_.clock->Await(&mutex_, absl::Condition(&all_sent), deadline);
    flushing_ = false;
    return done;
  }

  EventCounters counters() const override {
    absl::MutexLock lock(&mutex_);
    return counters_;
  }
  int queued() const override {
    absl::MutexLock lock(&mutex_);
    return static_cast<int>(queue_.size());
  }

 private:
  // Waits for an event whose turn it is; false at the end.
  bool Take(Queued& out) {
    absl::MutexLock lock(&mutex_);
    sending_ = false;
    const auto some = [this]()
                          ABSL_NO_THREAD_SAFETY_ANALYSIS { return closing_ || !queue_.empty(); };
    mutex_.Await(absl::Condition(&some));
    const auto quiet = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return closing_ || flushing_ || writes_ == 0;
    };
    if (!closing_) {
      options_.clock->Await(&mutex_, absl::Condition(&quiet), queue_.front().since + options_.hold);
    }
    if (closing_) return false;
    out = std::move(queue_.front());
    queue_.pop_front();
    sending_ = true;
    return true;
  }

  void Run() {
    Queued queued;
    while (Take(queued)) Send(queued);
  }

  void Send(const Queued& queued) {
    const absl::Time now = options_.clock->Now();
    const std::string name = EventName(queued);
    const auto known = sent_.find(name);
    if (known != sent_.end()) {
      ++known->second.count;
      if (now - known->second.last_write < options_.repeat_every) return;
      known->second.last_write = now;
      return Finish(CountRepeat(queued.ns, name, known->second.count, now), /*repeat=*/true);
    }
    absl::Status status;
    const Json object = EventObject(queued, name, options_.instance);
    for (int i = 0; i < kTries; ++i) {
      status = client_.Create(kube::kEvents, queued.ns, object, stop_.get_token()).status();
      if (!absl::IsUnavailable(status) && !absl::IsResourceExhausted(status)) break;
    }
    Remember(name, now);
    if (!absl::IsAlreadyExists(status)) return Finish(status, /*repeat=*/false);
    Finish(CountOnExisting(queued.ns, name, now), /*repeat=*/true);
  }

  // Another operator, or this one before its restart, has sent it.
  absl::Status CountOnExisting(const std::string& ns, const std::string& name, absl::Time now) {
    const absl::StatusOr<Json> event = client_.Get(kube::kEvents, ns, name, stop_.get_token());
    if (!event.ok()) return event.status();
    int count = 1;
    if (event->is_object() && event->contains("count") && (*event)["count"].is_number_integer()) {
      count = (*event)["count"].get<int>();
    }
    sent_[name].count = count + 1;
    return CountRepeat(ns, name, count + 1, now);
  }

  absl::Status CountRepeat(const std::string& ns, const std::string& name, int count,
                           absl::Time now) {
    return client_
        .Patch(kube::kEvents, ns, name, kube::PatchType::kMerge,
               {{"count", count}, {"lastTimestamp", base::TimeText(now)}}, "", stop_.get_token())
        .status();
  }

  void Remember(const std::string& name, absl::Time now) {
    sent_[name] = {.last_write = now};
    order_.push_back(name);
    if (static_cast<int>(order_.size()) <= options_.max_remembered) return;
    sent_.erase(order_.front());
    order_.pop_front();
  }

  void Finish(const absl::Status& status, bool repeat) {
    absl::MutexLock lock(&mutex_);
    if (status.ok()) {
      ++(repeat ? counters_.repeated : counters_.sent);
      return;
    }
    ++counters_.failed;
    if (!stop_.stop_requested()) {
      base::LogDebug("event not sent", {{"err", status.ToString()}});
    }
  }

  kube::Client& client_;
  const EventRecorderOptions options_;
  std::stop_source stop_;
  // Of the sending thread alone.
  std::unordered_map<std::string, Sent> sent_;
  std::deque<std::string> order_;

  mutable absl::Mutex mutex_;
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mutex_);
  int writes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  bool flushing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  EventCounters counters_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: joined before the rest goes
};

}  // namespace

std::unique_ptr<EventRecorder> EventRecorder::Create(kube::Client* client,
                                                     EventRecorderOptions options) {
  return std::make_unique<EventRecorderImpl>(client, std::move(options));
}

}  // namespace tfjob
