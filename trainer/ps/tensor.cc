#include "trainer/ps/tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/model/multiversion.h"

namespace trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");
constexpr std::align_val_t kAlignment{64};
// Current, next, and one that a reply still sends.
constexpr size_t kMaxFree = 3;
constexpr size_t kLargeBytes = 256 * 1024;

// Large buffers live long and are pooled: outside the heap they cannot fragment it.
bool IsLarge(size_t bytes) { return bytes >= kLargeBytes; }

float* Allocate(size_t bytes) {
  if (!IsLarge(bytes)) {
    return static_cast<float*>(::operator new[](std::max<size_t>(bytes, 1), kAlignment));
  }
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  return static_cast<float*>(data);
}

}  // namespace

FloatBuffer::FloatBuffer(int64_t size)
    : data_(Allocate(size * sizeof(float)), Free{size * sizeof(float)}), size_(size) {}

void FloatBuffer::Free::operator()(float* data) const {
  if (IsLarge(bytes)) {
    munmap(data, bytes);
  } else {
    ::operator delete[](data, kAlignment);
  }
}

struct BufferPool::State {
  explicit State(int64_t buffer_size) : size(buffer_size) {}
  const int64_t size;
  absl::Mutex mutex;
  std::vector<std::unique_ptr<FloatBuffer>> free ABSL_GUARDED_BY(mutex);
};

BufferPool::BufferPool(int64_t size) : state_(std::make_shared<State>(size)) {}

std::shared_ptr<FloatBuffer> BufferPool::Take() {
  std::unique_ptr<FloatBuffer> buffer;
  {
    absl::MutexLock lock(&state_->mutex);
    if (!state_->free.empty()) {
      buffer = std::move(state_->free.back());
      state_->free.pop_back();
    }
  }
  if (buffer == nullptr) buffer = std::make_unique<FloatBuffer>(state_->size);
  return {buffer.release(), [state = state_](FloatBuffer* returned) {
            std::unique_ptr<FloatBuffer> owned(returned);
            absl::MutexLock lock(&state->mutex);
            if (state->free.size() < kMaxFree) state->free.push_back(std::move(owned));
          }};
}

BytesSource::BytesSource(std::vector<Bytes> runs, ElementType type)
    : runs_(std::move(runs)), type_(type) {
  starts_.reserve(runs_.size());
  for (const Bytes& run : runs_) {
    starts_.push_back(total_bytes_);
    total_bytes_ += static_cast<int64_t>(run.size());
  }
}

std::span<const float> BytesSource::Read(int64_t offset, std::span<float> scratch) const {
  const int64_t element = ElementSize(type_);
  const int64_t first = offset * element;
  const int64_t count = static_cast<int64_t>(scratch.size()) * element;
  if (count == 0) return scratch;
  if (type_ == ElementType::kBf16) {
    std::array<uint16_t, 2048> block;
    for (size_t done = 0; done < scratch.size(); done += block.size()) {
      const size_t n = std::min(block.size(), scratch.size() - done);
      CopyBytes(first + 2 * static_cast<int64_t>(done), reinterpret_cast<std::byte*>(block.data()),
                2 * static_cast<int64_t>(n));
      FromBf16({block.data(), n}, scratch.subspan(done, n));
    }
    return scratch;
  }
  // In place where they lie in one run and are aligned.
  const size_t run = std::upper_bound(starts_.begin(), starts_.end(), first) - starts_.begin() - 1;
  if (const int64_t skip = first - starts_[run];
      skip + count <= static_cast<int64_t>(runs_[run].size())) {
    const std::byte* data = runs_[run].data() + skip;
    if (reinterpret_cast<uintptr_t>(data) % alignof(float) == 0) {
      return {reinterpret_cast<const float*>(data), scratch.size()};
    }
  }
  CopyBytes(first, reinterpret_cast<std::byte*>(scratch.data()), count);
  return scratch;
}

void BytesSource::CopyBytes(int64_t first, std::byte* to, int64_t count) const {
  size_t run = std::upper_bound(starts_.begin(), starts_.end(), first) - starts_.begin() - 1;
  for (int64_t skip = first - starts_[run]; count > 0; skip = 0, ++run) {
    const int64_t n = std::min(count, static_cast<int64_t>(runs_[run].size()) - skip);
    if (n <= 0) continue;
    std::memcpy(to, runs_[run].data() + skip, n);
    to += n;
    count -= n;
  }
}

void CopyTo(const TensorSource& source, std::span<float> to) {
  // Reading into the destination itself saves the scratch copy; a view means that it lies
  // elsewhere.
  const std::span<const float> values = source.Read(0, to);
  if (values.data() != to.data() && !to.empty()) {
    std::memcpy(to.data(), values.data(), to.size_bytes());
  }
}

TRAINYARD_MULTIVERSION void ToBf16(std::span<const float> from_span, std::span<uint16_t> to_span) {
  const float* const from = from_span.data();
  uint16_t* const to = to_span.data();
  const size_t size = from_span.size();
  TRAINYARD_INDEPENDENT
  for (size_t i = 0; i < size; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(from[i]);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t quiet_nan = (bits >> 16) | 0x40u;
    to[i] = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
  }
}

TRAINYARD_MULTIVERSION void FromBf16(std::span<const uint16_t> from_span,
                                     std::span<float> to_span) {
  const uint16_t* const from = from_span.data();
  float* const to = to_span.data();
  const size_t size = from_span.size();
  TRAINYARD_INDEPENDENT
  for (size_t i = 0; i < size; ++i) {
    to[i] = std::bit_cast<float>(static_cast<uint32_t>(from[i]) << 16);
  }
}

TRAINYARD_MULTIVERSION void AddTo(std::span<const float> from, std::span<float> sum) {
  const float* const values = from.data();
  float* const to = sum.data();
  const size_t size = from.size();
  TRAINYARD_INDEPENDENT
  for (size_t i = 0; i < size; ++i) to[i] += values[i];
}

}  // namespace trainer
