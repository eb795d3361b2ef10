// Runs of f32 elements between wire and store: pooled aligned buffers that are immutable once
// published, a reader over bytes in whatever pieces they arrived, and bf16. No gRPC.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace trainer {

// An array of f32 on its own cache lines (64-byte aligned). Uninitialised.
class FloatBuffer {
 public:
  explicit FloatBuffer(int64_t size);
  int64_t size() const { return size_; }
  std::span<float> span() { return {data_.get(), static_cast<size_t>(size_)}; }
  std::span<const float> span() const { return {data_.get(), static_cast<size_t>(size_)}; }

 private:
  struct Free {
    size_t bytes;
    void operator()(float* data) const;
  };
  std::unique_ptr<float[], Free> data_;
  int64_t size_;
};

// Many readers, on many threads, may hold one while the next version is being written elsewhere.
using SharedBuffer = std::shared_ptr<const FloatBuffer>;

// Hands out buffers of one size and takes them back when their last reader lets go. Thread-safe;
// buffers may outlive the pool.
class BufferPool {
 public:
  explicit BufferPool(int64_t size);
  std::shared_ptr<FloatBuffer> Take();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// `count` f32 elements that are somewhere: in a message, in shared memory, in a buffer.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual int64_t size() const = 0;
  // The elements [offset, offset + scratch.size()): a view of where they lie, or of `scratch`
  // after filling it. REQUIRES: the range is inside size().
  virtual std::span<const float> Read(int64_t offset, std::span<float> scratch) const = 0;
};

// Elements that already lie in memory as f32.
class SpanSource final : public TensorSource {
 public:
  explicit SpanSource(std::span<const float> values) : values_(values) {}
  int64_t size() const override { return static_cast<int64_t>(values_.size()); }
  std::span<const float> Read(int64_t offset, std::span<float> scratch) const override {
    return values_.subspan(offset, scratch.size());
  }

 private:
  std::span<const float> values_;
};

enum class ElementType { kF32, kBf16 };
inline int64_t ElementSize(ElementType type) { return type == ElementType::kBf16 ? 2 : 4; }

// Little-endian elements in one or more runs of bytes, at any alignment; an element may lie across
// two runs. Borrows the bytes.
class BytesSource final : public TensorSource {
 public:
  using Bytes = std::span<const std::byte>;
  // REQUIRES: the runs together are a whole number of elements.
  BytesSource(std::vector<Bytes> runs, ElementType type);
  int64_t size() const override { return total_bytes_ / ElementSize(type_); }
  std::span<const float> Read(int64_t offset, std::span<float> scratch) const override;

 private:
  void CopyBytes(int64_t first, std::byte* to, int64_t count) const;

  std::vector<Bytes> runs_;
  std::vector<int64_t> starts_;  // byte offset of each run
  ElementType type_;
  int64_t total_bytes_ = 0;
};

// Elements per Read in the loops over a source: 64 KiB of scratch stays in the first-level caches.
inline constexpr int64_t kChunk = 16 * 1024;

// Calls visit(offset, elements) over the elements [begin, end) of the source, chunk by chunk.
template <typename Visitor>
void ForEachChunk(const TensorSource& source, int64_t begin, int64_t end, Visitor&& visit) {
  alignas(64) thread_local float scratch[kChunk];
  for (int64_t offset = begin; offset < end; offset += kChunk) {
    const int64_t count = std::min(kChunk, end - offset);
    visit(offset, source.Read(offset, {scratch, static_cast<size_t>(count)}));
  }
}

template <typename Visitor>
void ForEachChunk(const TensorSource& source, Visitor&& visit) {
  ForEachChunk(source, 0, source.size(), std::forward<Visitor>(visit));
}

// REQUIRES: to.size() == source.size().
void CopyTo(const TensorSource& source, std::span<float> to);

// sum[i] += from[i]. REQUIRES: equal sizes.
void AddTo(std::span<const float> from, std::span<float> sum);

// bf16 is the upper half of an f32. Rounds to nearest, ties to even; NaN stays NaN.
// REQUIRES: equal sizes.
void ToBf16(std::span<const float> from, std::span<uint16_t> to);
void FromBf16(std::span<const uint16_t> from, std::span<float> to);

}  // namespace trainer
