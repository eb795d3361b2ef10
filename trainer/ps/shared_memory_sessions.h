// A parameter server's side of shared memory: one thread for each worker that attached.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "trainer/ps/exchange_handler.h"
#include "trainer/ps/partition.h"
#include "trainer/ps/shared_memory.h"

namespace trainer {

// Thread-safe. The destructor ends all sessions.
class SharedMemorySessions {
 public:
  // on_lost: a worker's process died without closing its session.
  SharedMemorySessions(ExchangeHandler* handler, std::function<void(const Caller&)> on_lost);
  ~SharedMemorySessions();

  // `layout`: which elements of the flat buffers are this server's. kFailedPrecondition if the
  // memory has no room for them.
  absl::Status Add(const Caller& caller, std::unique_ptr<SharedMemory> memory, Shard layout);
  void CloseAll();

  int64_t bytes_sent() const { return bytes_sent_; }
  int64_t bytes_received() const { return bytes_received_; }

 private:
  class Session;

  ExchangeHandler* const handler_;
  const std::function<void(const Caller&)> on_lost_;
  std::atomic<int64_t> bytes_sent_ = 0;
  std::atomic<int64_t> bytes_received_ = 0;

  struct Running {
    std::shared_ptr<Session> session;
    std::thread thread;
  };
  std::mutex mutex_;
  std::vector<Running> running_;  // guarded by mutex_
};

}  // namespace trainer
