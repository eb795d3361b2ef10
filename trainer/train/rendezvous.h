// How the tasks of an all-reduce job find each other: every rank announces itself in rank 0's
// key-value store; when all have, rank 0 names a group. A rank that comes back announces itself
// anew, so a group never mixes a process with its dead predecessor.
#pragma once

#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/train/role.h"
#include "trainer/train/task_client.h"
#include "trainer/train/task_server.h"

namespace trainer {

// Not thread-safe.
class Rendezvous {
 public:
  // `server` (this task's own) must outlive the object.
  Rendezvous(const Role& role, TaskServer* server);

  // Waits until all trainers are there; returns the new group's name, the same for every rank.
  // kUnavailable names the missing ones after `timeout`; kCancelled when stopped.
  absl::StatusOr<std::string> Join(absl::Duration timeout, std::stop_token stop);

  // Rank 0's store. Get waits for the key.
  absl::Status Put(const std::string& key, std::string value);
  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout);

  // The other trainers that do not answer now, e.g. "/job:worker/task:1 (w1:2222: connection
  // refused)".
  std::vector<std::string> Unreachable() const;

 private:
  absl::StatusOr<std::string> Gather(absl::Duration timeout, std::stop_token stop);
  absl::StatusOr<std::string> Announce(absl::Duration timeout, std::stop_token stop);
  std::string Describe(int rank) const;

  const Role role_;
  TaskServer* const server_;
  const std::unique_ptr<TaskClient> rank_zero_;  // null on rank 0
  std::set<std::string> used_;  // rank 0: announcements that are in a group already
};

}  // namespace trainer
