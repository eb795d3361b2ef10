#include "trainer/checkpoint/bundle_key.h"

#include <array>
#include <bit>
#include <cstddef>

namespace trainer {
namespace {

// Big-endian bytes.
std::array<unsigned char, 8> BigEndian(uint64_t value) {
  std::array<unsigned char, 8> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(value >> (56 - 8 * i));
  }
  return bytes;
}

}  // namespace

// Length byte, then that many bytes without leading zeros.
void AppendOrderedNumber(uint64_t value, std::string* out) {
  const size_t length = (static_cast<size_t>(std::bit_width(value)) + 7) / 8;
  const auto bytes = BigEndian(value);
  out->push_back(static_cast<char>(length));
  for (size_t i = bytes.size() - length; i < bytes.size(); ++i) {
    out->push_back(static_cast<char>(bytes[i]));
  }
}

// A code of 1 to 10 bytes. The length is the number of equal leading bits of the code (ones for
// values >= 0, zeros for negative ones); each byte more gives seven bits more for the value.
void AppendOrderedSigned(int64_t value, std::string* out) {
  const uint64_t magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
  const size_t length = static_cast<size_t>(std::bit_width(magnitude)) / 7 + 1;
  const unsigned char sign = value < 0 ? 0xff : 0x00;
  std::array<unsigned char, 10> code = {sign, sign};
  const auto bytes = BigEndian(static_cast<uint64_t>(value));
  for (size_t i = 0; i < bytes.size(); ++i) code[i + 2] = bytes[i];
  const size_t begin = code.size() - length;
  // Flips the first `length` bits, which hold copies of the sign.
  for (size_t bit = 0; bit < length; ++bit) {
    code[begin + bit / 8] ^= static_cast<unsigned char>(0x80u >> (bit % 8));
  }
  for (size_t i = begin; i < code.size(); ++i) out->push_back(static_cast<char>(code[i]));
}

// 0x00 → 0x00 0xff, 0xff → 0xff 0x00; ended by 0x00 0x01.
void AppendOrderedString(std::string_view value, std::string* out) {
  for (const char c : value) {
    out->push_back(c);
    if (c == '\0') out->push_back('\xff');
    if (c == '\xff') out->push_back('\0');
  }
  out->push_back('\0');
  out->push_back('\x01');
}

std::string EncodeSliceKey(std::string_view tensor, std::span<const SliceExtent> extents) {
  std::string key;
  AppendOrderedNumber(0, &key);  // no tensor's name begins with this byte
  AppendOrderedString(tensor, &key);
  AppendOrderedNumber(extents.size(), &key);
  for (const SliceExtent& extent : extents) {
    AppendOrderedSigned(extent.start, &key);
    AppendOrderedSigned(extent.length, &key);
  }
  return key;
}

}  // namespace trainer
