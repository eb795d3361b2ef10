#include "trainer/ps/worker_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace trainer {
namespace {

constexpr size_t kMaxEarlierLives = 16;

}  // namespace

absl::StatusOr<Worker*> WorkerTable::Touch(const Caller& caller, absl::Time now) {
  const auto [it, is_new] = workers_.try_emplace(caller.task);
  Worker& worker = it->second;
  if (is_new) {
    worker.incarnation = caller.incarnation;
  } else if (worker.incarnation != caller.incarnation) {
    std::vector<uint64_t> earlier = std::move(worker.earlier_lives);
    if (std::ranges::count(earlier, caller.incarnation) > 0) {
      return absl::AbortedError(absl::StrCat(base::TaskName(caller.task),
                                             " was restarted; this call is from its earlier life"));
    }
    if (earlier.size() == kMaxEarlierLives) earlier.erase(earlier.begin());
    earlier.push_back(worker.incarnation);
    worker = Worker{.incarnation = caller.incarnation,
                    .participant = worker.participant,
                    .earlier_lives = std::move(earlier)};
  }
  worker.last_seen = now;
  worker.live = true;
  return &worker;
}

Worker* WorkerTable::Find(const Caller& caller) {
  const auto it = workers_.find(caller.task);
  if (it == workers_.end() || it->second.incarnation != caller.incarnation) return nullptr;
  return &it->second;
}

void WorkerTable::Leave(const Caller& caller) {
  if (Worker* worker = Find(caller)) worker->live = false;
}

std::vector<base::Task> WorkerTable::Expire(absl::Time deadline) {
  std::vector<base::Task> expired;
  for (auto& [task, worker] : workers_) {
    if (!worker.live || worker.last_seen >= deadline) continue;
    worker.live = false;
    expired.push_back(task);
  }
  return expired;
}

int WorkerTable::live() const {
  return static_cast<int>(
      std::ranges::count_if(workers_, [](const auto& entry) { return entry.second.live; }));
}

int WorkerTable::live_and_computing() const {
  return static_cast<int>(std::ranges::count_if(workers_, [](const auto& entry) {
    return entry.second.live && entry.second.activity == Worker::Activity::kComputing;
  }));
}

int WorkerTable::participants() const {
  return static_cast<int>(
      std::ranges::count_if(workers_, [](const auto& entry) { return entry.second.participant; }));
}

}  // namespace trainer
