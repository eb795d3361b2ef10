// Spin, then sleep on a futex (std::atomic::wait).
#include "trainer/model/team.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace trainer {
namespace {

constexpr uint32_t kStop = 0xffffffffu;
constexpr int kSpins = 1000;  // some 20 to 40 µs

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

constexpr uint64_t Ticket(uint32_t round, uint32_t part) {
  return (static_cast<uint64_t>(round) << 32) | part;
}

// Returns when `value` is no longer `old`.
void WaitWhile(const std::atomic<uint32_t>& value, uint32_t old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    Pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

Team::Team(int size)
    : size_(size),
      // Spinning only takes time from the thread that is waited for where they share a core.
      spins_(std::thread::hardware_concurrency() >= static_cast<unsigned>(size) ? kSpins : 0) {
  threads_.reserve(static_cast<size_t>(size) - 1);
  for (int i = 1; i < size; ++i) threads_.emplace_back([this] { Work(); });
}

Team::~Team() {
  round_.store(kStop, std::memory_order_release);
  round_.notify_all();
}

void Team::Run(absl::FunctionRef<void(int)> task) {
  if (size_ == 1) return task(0);
  uint32_t round = round_.load(std::memory_order_relaxed) + 1;
  if (round == kStop) round = 0;
  task_ = &task;
  finished_.store(1, std::memory_order_relaxed);  // part 0, which the caller is about to do
  next_part_.store(Ticket(round, 1), std::memory_order_release);
  round_.store(round, std::memory_order_release);
  round_.notify_all();
  task(0);
  TakeParts(round);
  const auto all = static_cast<uint32_t>(size_);
  for (uint32_t done = finished_.load(std::memory_order_acquire); done != all;
       done = finished_.load(std::memory_order_acquire)) {
    WaitWhile(finished_, done, spins_);
  }
}

void Team::TakeParts(uint32_t round) {
  const auto end = Ticket(round, static_cast<uint32_t>(size_));
  uint64_t part = next_part_.load(std::memory_order_acquire);
  while (part >= Ticket(round, 1) && part < end) {
    if (!next_part_.compare_exchange_weak(part, part + 1, std::memory_order_acq_rel)) continue;
    (*task_)(static_cast<int>(part & 0xffffffffu));
    const uint32_t done = finished_.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (done == static_cast<uint32_t>(size_)) finished_.notify_one();
    part = next_part_.load(std::memory_order_acquire);
  }
}

void Team::Work() {
  uint32_t seen = 0;
  for (;;) {
    WaitWhile(round_, seen, spins_);
    const uint32_t round = round_.load(std::memory_order_acquire);
    if (round == kStop) return;
    if (round == seen) continue;
    seen = round;
    TakeParts(round);
  }
}

}  // namespace trainer
