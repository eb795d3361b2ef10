#include "trainer/data/crc32c.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace trainer {
namespace {

// Vectors of RFC 3720, appendix B.4.
TEST(Crc32cTest, GivesThePublishedValues) {
  const std::vector<uint8_t> zeros(32, 0);
  const std::vector<uint8_t> ones(32, 0xff);
  std::vector<uint8_t> ascending(32);
  std::iota(ascending.begin(), ascending.end(), 0);
  EXPECT_EQ(Crc32c(zeros), 0x8a9136aau);
  EXPECT_EQ(Crc32c(ones), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32cTest, TableAndInstructionAgreeAtEveryLengthAndAlignment) {
  std::vector<uint8_t> bytes(100);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 37 + 11);
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t end = begin; end <= bytes.size(); ++end) {
      const std::span<const uint8_t> part(bytes.data() + begin, end - begin);
      EXPECT_EQ(Crc32c(part), Crc32cPortable(part)) << begin << ' ' << end;
    }
  }
}

TEST(Crc32cTest, ExtendsTheCrcOfEarlierBytes) {
  EXPECT_EQ(Crc32c("world", Crc32c("hello ")), Crc32c("hello world"));
}

TEST(Crc32cTest, UnmaskUndoesMask) {
  const uint32_t crc = Crc32c("foo");
  EXPECT_NE(MaskCrc32c(crc), crc);
  EXPECT_EQ(UnmaskCrc32c(MaskCrc32c(crc)), crc);
  EXPECT_EQ(UnmaskCrc32c(UnmaskCrc32c(MaskCrc32c(MaskCrc32c(crc)))), crc);
}

}  // namespace
}  // namespace trainer
