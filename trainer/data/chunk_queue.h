// The bounded queue between a thread that reads examples and the one that draws batches.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trainer {

// Some examples: pixels (N, D) and labels (N).
struct Chunk {
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> labels;
};

// Thread-safe. One reader, one consumer.
class ChunkQueue {
 public:
  explicit ChunkQueue(size_t capacity) : capacity_(capacity) {}

  // Waits for room. False: stop was requested, and the chunk is dropped.
  bool Push(Chunk chunk, const std::stop_token& stop);

  // The reader ends: with an error, or OK because there is nothing for it to read.
  void End(absl::Status status);

  // The next chunk, in the order they were pushed; nullopt or the reader's error after the last.
  // kDeadlineExceeded after `timeout`.
  absl::StatusOr<std::optional<Chunk>> Pop(std::chrono::nanoseconds timeout);

 private:
  const size_t capacity_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Chunk> chunks_;  // both guarded by mutex_
  std::optional<absl::Status> ended_;
};

}  // namespace trainer
