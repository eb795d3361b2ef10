// Arithmetic on numbers below 1.2e-38 takes a hundred times as long as on others, and training
// makes them by the thousand: the moments of weights whose input is always 0 decay for ever.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace trainer {

// While one lives, denormal results and operands count as 0 on this thread.
class FlushDenormals {
 public:
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

#if defined(__x86_64__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlush); }
  ~FlushDenormals() { _mm_setcsr(before_); }

 private:
  static constexpr unsigned kFlush = 0x8040;  // MXCSR: flush to zero, denormals are zeros
  const unsigned before_;
#elif defined(__aarch64__)
  FlushDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    asm volatile("msr fpcr, %0" ::"r"(before_ | kFlush));
  }
  ~FlushDenormals() { asm volatile("msr fpcr, %0" ::"r"(before_)); }

 private:
  static constexpr uint64_t kFlush = 1u << 24;  // FPCR.FZ
  uint64_t before_;
#else
  FlushDenormals() {}
#endif
};

}  // namespace trainer
