// Who takes part in training, as one parameter server sees it: leases, lives of restarted workers,
// retried pushes, and how many tokens for the next gradient are free. PURE: time comes in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/cluster_spec.h"

namespace trainer {

// One life of a task's process.
struct Caller {
  base::Task task;
  uint64_t incarnation = 0;  // random, new after each restart
};

struct Worker {
  enum class Activity {
    kIdle,       // has not pushed yet, or its call was given up
    kComputing,  // holds a token: its next gradient is to come
    kWaiting,    // its push was taken; it waits for a token
  };
  uint64_t incarnation = 0;
  absl::Time last_seen;
  bool live = true;  // within its lease and without a goodbye
  Activity activity = Activity::kIdle;
  bool participant = false;               // this task pushed at least once, in any life
  std::optional<uint64_t> last_sequence;  // of its newest push in this life
  bool last_dropped = false;              // what became of that
  int64_t last_accepted_version = -1;     // base version of its newest averaged push
  std::vector<uint64_t> earlier_lives;
};

// Not thread-safe.
class WorkerTable {
 public:
  // The caller's entry, its lease renewed; a new life replaces the earlier one and starts idle.
  // kAborted: a later life of this task was seen already, so this call comes from a dead process.
  absl::StatusOr<Worker*> Touch(const Caller& caller, absl::Time now);
  // Null if unknown or another life.
  Worker* Find(const Caller& caller);
  // The worker leaves in good order.
  void Leave(const Caller& caller);
  // Ends the leases of workers silent since before `deadline`; returns them.
  std::vector<base::Task> Expire(absl::Time deadline);
  void Clear() { workers_.clear(); }

  int live() const;
  int live_and_computing() const;
  int participants() const;

 private:
  std::map<base::Task, Worker> workers_;
};

}  // namespace trainer
