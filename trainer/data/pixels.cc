#include "trainer/data/pixels.h"

#include <cstddef>

namespace trainer {
namespace {

// One product with the rounded reciprocal is what the classic input pipelines compute; 255 gives 1.
constexpr float kScale = 1.0f / 255.0f;
static_assert(255.0f * kScale == 1.0f);

// A loop that the compiler turns into vectors of whatever width the enclosing function may use.
inline __attribute__((always_inline)) void Scale(const uint8_t* __restrict pixels, size_t count,
                                                 float* __restrict out) {
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<float>(pixels[i]) * kScale;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void ScaleAvx2(const uint8_t* pixels, size_t count, float* out) {
  Scale(pixels, count, out);
}
#endif

}  // namespace

void ScalePixels(std::span<const uint8_t> pixels, float* out) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return ScaleAvx2(pixels.data(), pixels.size(), out);
#endif
  Scale(pixels.data(), pixels.size(), out);
}

}  // namespace trainer
