#include "trainer/data/chunk_queue.h"

#include <utility>

namespace trainer {

bool ChunkQueue::Push(Chunk chunk, const std::stop_token& stop) {
  {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [&] { return chunks_.size() < capacity_; })) return false;
    chunks_.push_back(std::move(chunk));
  }
  changed_.notify_all();
  return true;
}

void ChunkQueue::End(absl::Status status) {
  {
    const std::lock_guard lock(mutex_);
    ended_ = std::move(status);
  }
  changed_.notify_all();
}

absl::StatusOr<std::optional<Chunk>> ChunkQueue::Pop(std::chrono::nanoseconds timeout) {
  std::optional<Chunk> chunk;
  {
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return !chunks_.empty() || ended_.has_value(); };
    if (!changed_.wait_for(lock, timeout, ready)) {
      return absl::DeadlineExceededError("no examples came from the TFRecord files in time");
    }
    if (chunks_.empty()) {
      if (!ended_->ok()) return *ended_;
      return std::optional<Chunk>();
    }
    chunk = std::move(chunks_.front());
    chunks_.pop_front();
  }
  changed_.notify_all();
  return chunk;
}

}  // namespace trainer
