// The memory of a device that this process may use, handed out in pieces: all of it taken at once,
// or in blocks as they are needed. Knows no CUDA: the source of memory comes in by parameter.
// Thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace trainer::cuda {

struct MemorySource {
  std::function<void*(int64_t bytes)> take;  // null: there is not so much
  std::function<void(void* memory)> give;
};

class MemoryPool {
 public:
  // growth: take blocks of 64 MiB or more as needed; otherwise limit_bytes with the first piece.
  MemoryPool(MemorySource source, int64_t limit_bytes, bool growth)
      : source_(std::move(source)), limit_bytes_(limit_bytes), growth_(growth) {}
  ~MemoryPool() {
    for (const Block& block : blocks_) source_.give(block.memory);
  }
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // A piece aligned to 256 bytes, or null with the reason in *why.
  void* Allocate(int64_t bytes, std::string* why) {
    const int64_t size = std::max<int64_t>(1, (bytes + kAlignment - 1) / kAlignment) * kAlignment;
    const std::lock_guard lock(mutex_);
    if (void* const piece = Fit(size)) return piece;
    if (!AddBlock(size, why)) return nullptr;
    return Fit(size);
  }

  void Free(void* piece) {
    const std::lock_guard lock(mutex_);
    for (Block& block : blocks_) {
      const int64_t offset = static_cast<char*>(piece) - static_cast<char*>(block.memory);
      const auto used = block.used.find(offset);
      if (offset < 0 || offset >= block.size || used == block.used.end()) continue;
      const int64_t size = used->second;
      block.used.erase(used);
      Merge(block.free, offset, size);
      return;
    }
  }

  int64_t taken_bytes() const {
    const std::lock_guard lock(mutex_);
    return taken_;
  }

 private:
  static constexpr int64_t kAlignment = 256;
  static constexpr int64_t kBlockBytes = int64_t{64} << 20;

  struct Block {
    void* memory = nullptr;
    int64_t size = 0;
    std::map<int64_t, int64_t> free;  // offset → bytes, neighbours merged
    std::map<int64_t, int64_t> used;
  };

  void* Fit(int64_t size) {
    for (Block& block : blocks_) {
      for (auto it = block.free.begin(); it != block.free.end(); ++it) {
        const auto [offset, room] = *it;
        if (room < size) continue;
        block.free.erase(it);
        if (room > size) block.free[offset + size] = room - size;
        block.used[offset] = size;
        return static_cast<char*>(block.memory) + offset;
      }
    }
    return nullptr;
  }

  bool AddBlock(int64_t size, std::string* why) {
    const int64_t left = limit_bytes_ - taken_;
    if (size > left) {
      *why = "needs " + Mib(size) + " more where this process may use " + Mib(limit_bytes_) +
             " and has taken " + Mib(taken_) +
             ": a smaller --batch_size, or a larger --per_process_gpu_memory_fraction";
      return false;
    }
    const int64_t wanted = growth_ ? std::min(left, std::max(size, kBlockBytes)) : left;
    void* const memory = source_.take(wanted);
    if (memory == nullptr) {
      *why = "the device does not give " + Mib(wanted) +
             ": other programs use it; --allow_growth, or a smaller "
             "--per_process_gpu_memory_fraction, takes less";
      return false;
    }
    taken_ += wanted;
    blocks_.push_back({.memory = memory, .size = wanted, .free = {{0, wanted}}, .used = {}});
    return true;
  }

  static void Merge(std::map<int64_t, int64_t>& free, int64_t offset, int64_t size) {
    const auto after = free.upper_bound(offset);
    if (after != free.end() && after->first == offset + size) {
      size += after->second;
      free.erase(after);
    }
    const auto next = free.upper_bound(offset);
    if (next != free.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += size;
        return;
      }
    }
    free[offset] = size;
  }

  static std::string Mib(int64_t bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
    return text;
  }

  const MemorySource source_;
  const int64_t limit_bytes_;
  const bool growth_;
  mutable std::mutex mutex_;
  std::vector<Block> blocks_;
  int64_t taken_ = 0;
};

}  // namespace trainer::cuda
