// CRC-32C (Castagnoli, RFC 3720 appendix B.4) and the masked form that TFRecord files and
// TensorFlow's checkpoint tables store, so that a CRC of data that itself holds CRCs stays
// meaningful.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace trainer {

// The CRC of `bytes` following data whose CRC is `init`: Crc32c(b, Crc32c(a)) == Crc32c(a + b).
// Uses the SSE4.2 instruction where the CPU has it.
uint32_t Crc32c(std::span<const uint8_t> bytes, uint32_t init = 0);
uint32_t Crc32c(std::string_view bytes, uint32_t init = 0);

// The same by table only, which every CPU can run; here so that tests compare the two.
uint32_t Crc32cPortable(std::span<const uint8_t> bytes, uint32_t init = 0);

// Mask and its inverse: rotated right by 15 bits, plus a constant
// (tensorflow/core/lib/hash/crc32c.h).
inline constexpr uint32_t kCrcMaskDelta = 0xa282ead8u;
constexpr uint32_t MaskCrc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + kCrcMaskDelta; }
constexpr uint32_t UnmaskCrc32c(uint32_t masked) {
  const uint32_t rotated = masked - kCrcMaskDelta;
  return (rotated >> 17) | (rotated << 15);
}

}  // namespace trainer
