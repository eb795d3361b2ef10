#include "trainer/checkpoint/bundle_key.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace trainer {
namespace {

std::string Number(uint64_t value) {
  std::string out;
  AppendOrderedNumber(value, &out);
  return out;
}

std::string Signed(int64_t value) {
  std::string out;
  AppendOrderedSigned(value, &out);
  return out;
}

TEST(BundleKeyTest, WritesNumbersAsLengthAndBigEndianBytes) {
  EXPECT_EQ(Number(0), std::string("\0", 1));
  EXPECT_EQ(Number(1), "\x01\x01");
  EXPECT_EQ(Number(255), "\x01\xff");
  EXPECT_EQ(Number(256), std::string("\x02\x01\x00", 3));
}

TEST(BundleKeyTest, WritesSmallSignedNumbersInOneByte) {
  EXPECT_EQ(Signed(0), "\x80");
  EXPECT_EQ(Signed(63), "\xbf");
  EXPECT_EQ(Signed(-1), "\x7f");
  EXPECT_EQ(Signed(-64), "\x40");
}

TEST(BundleKeyTest, WritesLargerSignedNumbersWithALengthInTheLeadingBits) {
  EXPECT_EQ(Signed(64), "\xc0\x40");
  EXPECT_EQ(Signed(784), "\xc3\x10");
  EXPECT_EQ(Signed(8192), std::string("\xe0\x20\x00", 3));
  EXPECT_EQ(Signed(-65), "\x3f\xbf");
}

TEST(BundleKeyTest, KeepsTheOrderOfSignedNumbers) {
  std::vector<int64_t> values = {std::numeric_limits<int64_t>::min()};
  for (int bits = 62; bits >= 0; --bits) {
    values.push_back(-(int64_t{1} << bits) - 1);
    values.push_back(-(int64_t{1} << bits));
  }
  values.push_back(0);
  for (int bits = 0; bits <= 62; ++bits) {
    values.push_back((int64_t{1} << bits));
    if (bits > 0) values.push_back((int64_t{1} << bits) + 1);
  }
  values.push_back(std::numeric_limits<int64_t>::max());
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i - 1] == values[i]) continue;
    ASSERT_LT(values[i - 1], values[i]);
    EXPECT_LT(Signed(values[i - 1]), Signed(values[i])) << values[i - 1] << " " << values[i];
    EXPECT_LE(Signed(values[i]).size(), 10u);
  }
}

TEST(BundleKeyTest, EscapesZerosAndOnesInStrings) {
  std::string out;
  AppendOrderedString(std::string_view("a\0b\xff", 4), &out);
  EXPECT_EQ(out, std::string("a\0\xff"
                             "b\xff\0\0\x01",
                             8));
}

TEST(BundleKeyTest, EncodesASliceOfRows) {
  const SliceExtent extents[] = {{0, 392}, {}};
  EXPECT_EQ(EncodeSliceKey("w", extents), std::string("\0w\0\x01\x01\x02\x80\xc1\x88\x80\x7f", 11));
}

}  // namespace
}  // namespace trainer
