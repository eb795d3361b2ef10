// A few threads that run one function together, again and again, with little to pay for each start.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace trainer {

// Owns size() - 1 threads; the thread that calls Run is the other one. A waiting thread spins for
// some microseconds, because the next start usually follows at once, and then sleeps. On a busy
// machine nobody waits for a thread that has not got a core: its part is done by another one.
// Not thread-safe: one Run at a time.
class Team {
 public:
  explicit Team(int size);  // REQUIRES: size >= 1
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return size_; }

  // Calls task(i) once for every i in [0, size()), side by side where there are cores, and returns
  // when all have returned. Which thread takes which part is left open, but for part 0: the
  // caller's. `task` must not throw. What one Run wrote the next one sees.
  void Run(absl::FunctionRef<void(int)> task);

 private:
  void Work();
  void TakeParts(uint32_t round);

  const int size_;
  const int spins_;
  std::atomic<uint32_t> round_ = 0;      // counts starts; kStop ends the threads
  std::atomic<uint64_t> next_part_ = 0;  // round in the upper half, part in the lower
  std::atomic<uint32_t> finished_ = 0;   // parts of this round that have returned
  const absl::FunctionRef<void(int)>* task_ = nullptr;  // written before next_part_
  std::vector<std::jthread> threads_;
};

}  // namespace trainer
