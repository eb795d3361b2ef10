#include "trainer/checkpoint/bundle_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_format.h"
#include "base/str_cat.h"

namespace trainer {
namespace {

using ::testing::HasSubstr;

std::vector<TableRecord> ManyRecords() {
  std::vector<TableRecord> records = {{"", "header"}};
  for (int i = 0; i < 2000; ++i) {
    records.emplace_back(absl::StrFormat("layer%05d/weights", i), std::string(20, 'a' + i % 26));
  }
  return records;
}

TEST(BundleTableTest, ReadsBackWhatLeveldbWrote) {
  const std::vector<TableRecord> records = ManyRecords();
  const auto table = EncodeTable(records);
  ASSERT_TRUE(table.ok()) << table.status();
  const auto decoded = DecodeTable(*table);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, records);
}

TEST(BundleTableTest, ReadsAnEmptyTable) {
  const auto table = EncodeTable({});
  ASSERT_TRUE(table.ok());
  const auto decoded = DecodeTable(*table);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(decoded->empty());
}

TEST(BundleTableTest, RefusesKeysOutOfOrder) {
  const TableRecord records[] = {{"b", ""}, {"a", ""}};
  EXPECT_FALSE(EncodeTable(records).ok());
}

TEST(BundleTableTest, RefusesEveryTruncation) {
  const std::string table = *EncodeTable(ManyRecords());
  for (size_t size = 0; size < table.size(); size += 1 + size / 50) {
    EXPECT_FALSE(DecodeTable(std::string_view(table).substr(0, size)).ok()) << size;
  }
}

TEST(BundleTableTest, NoticesEveryFlippedByteOfABlock) {
  const std::vector<TableRecord> records = ManyRecords();
  const std::string table = *EncodeTable(records);
  for (size_t at = 0; at + 48 < table.size(); at += 97) {
    std::string damaged = table;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    const auto decoded = DecodeTable(damaged);
    // The metaindex block is empty and never read.
    if (decoded.ok()) {
      EXPECT_EQ(*decoded, records) << at;
    }
  }
  std::string damaged = table;
  damaged[0] ^= 1;
  EXPECT_THAT(DecodeTable(damaged).status().message(), HasSubstr("checksum"));
}

TEST(BundleTableTest, SaysThatAFileIsNotATable) {
  EXPECT_THAT(DecodeTable(std::string(100, 'x')).status().message(),
              HasSubstr("at offset 52: this is not the end of an index table"));
  EXPECT_THAT(DecodeTable("short").status().message(), HasSubstr("found 5"));
}

TEST(BundleTableTest, RefusesABlockPositionOutsideTheFile) {
  std::string table = *EncodeTable(ManyRecords());
  // The footer holds two positions as base-128 numbers: make both enormous.
  for (size_t at = table.size() - 48; at < table.size() - 8; ++at) table[at] = '\xff';
  EXPECT_FALSE(DecodeTable(table).ok());
  for (size_t at = table.size() - 48; at < table.size() - 8; ++at) {
    table[at] = (at - (table.size() - 48)) % 9 == 8 ? '\x7f' : '\xff';
  }
  EXPECT_THAT(DecodeTable(table).status().message(), HasSubstr("ends outside the file"));
}

}  // namespace
}  // namespace trainer
