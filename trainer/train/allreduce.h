// All-reduce between the tasks that train, on CPUs over TCP: gradients are averaged among equals,
// without parameter servers. Gloo carries the bytes and is known to this file's .cc only.
#pragma once

#include <memory>
#include <span>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/train/role.h"
#include "trainer/train/task_server.h"

namespace trainer {

struct AllReducerOptions {
  Role role;                     // trainers, rank, address
  TaskServer* server = nullptr;  // this task's own; must outlive the reducer
  absl::Duration rendezvous_timeout = absl::Minutes(10);  // to wait for all the others
  absl::Duration collective_timeout =
      absl::Seconds(30);  // one rank silent for longer ends the group
  std::stop_token stop;   // ends every wait with kCancelled
};

// One rank of a group; all ranks call the same methods in the same order with the same sizes. Not
// thread-safe. Every rank ends a call with bit-equal values.
//
// A collective fails with kUnavailable on every rank, naming the tasks that do not answer, when a
// rank dies or hangs; the group is then broken until the next Join.
class AllReducer {
 public:
  // kInvalidArgument: this task does not train. Waits for nobody.
  static absl::StatusOr<std::unique_ptr<AllReducer>> Create(const AllReducerOptions& options);
  virtual ~AllReducer() = default;

  // Waits until all trainers are there; kUnavailable names the missing ones after the timeout. Call
  // it first, and again after a failure: they may all be there again because a dead one was
  // restarted. The caller then broadcasts its state anew.
  virtual absl::Status Join() = 0;

  // values becomes the mean over all ranks: summed in f32, then divided by their number.
  virtual absl::Status Average(std::span<float> values) = 0;

  // values becomes rank 0's.
  virtual absl::Status Broadcast(std::span<float> values) = 0;

  // Call when all is done, before destruction: waits a moment until every rank has got its last
  // result, since a closed connection may lose it.
  virtual void Leave() = 0;
};

}  // namespace trainer
