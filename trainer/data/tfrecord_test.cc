#include "trainer/data/tfrecord.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/exit_codes.h"
#include "trainer/data/crc32c.h"
#include "trainer/data/test_util.h"

namespace trainer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Little(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

// A record written out by hand, as the format's description has it.
std::string Record(const std::string& body) {
  const std::string length = Little(body.size(), 8);
  return length + Little(MaskCrc32c(Crc32c(length)), 4) + body +
         Little(MaskCrc32c(Crc32c(body)), 4);
}

absl::StatusOr<std::vector<std::string>> ReadAll(const std::string& bytes,
                                                 uint64_t limit = kMaxRecordBytes) {
  auto source =
      OpenByteSource("a.tfrecord", {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  if (!source.ok()) return source.status();
  TfRecordReader reader(std::move(*source), limit);
  std::vector<std::string> records;
  for (;;) {
    const auto record = reader.Next();
    if (!record.ok()) return record.status();
    if (!record->has_value()) return records;
    records.emplace_back(**record);
  }
}

TEST(TfRecordTest, ReadsRecordsOfTheDocumentedForm) {
  const auto records = ReadAll(Record("one") + Record("") + Record("three"));
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_THAT(*records, ElementsAre("one", "", "three"));
  EXPECT_TRUE(ReadAll("")->empty());
}

TEST(TfRecordTest, ReadsGzip) {
  const auto records = ReadAll(Gzip(Record("one") + Record("two")));
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_THAT(*records, ElementsAre("one", "two"));
}

TEST(TfRecordTest, WritesWhatItReadsAndNothingBeforeClose) {
  TempFolder folder;
  const std::string path = folder.File("deep/a.tfrecord");
  const std::string large(3 << 20, 'x');
  auto writer = TfRecordWriter::Create(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->Append("one").ok());
  ASSERT_TRUE(writer->Append(large).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(writer->Close().ok());
  EXPECT_EQ(ReadFile(path), Record("one") + Record(large));
}

TEST(TfRecordTest, AnUnclosedWriterLeavesNothingBehind) {
  TempFolder folder;
  {
    auto writer = TfRecordWriter::Create(folder.File("a.tfrecord"));
    ASSERT_TRUE(writer.ok() && writer->Append("one").ok());
  }
  EXPECT_TRUE(folder.Names().empty());
}

struct BadRecordFile {
  std::string what;
  std::string bytes;
  std::vector<std::string> message;
};

std::vector<BadRecordFile> BadRecordFiles() {
  const std::string first = Record("first");  // 21 bytes
  std::string bad_length = first;
  bad_length[0] ^= 1;
  std::string bad_body = first;
  bad_body[12] ^= 1;
  std::string bad_crc = first;
  bad_crc[17] ^= 1;
  const std::string huge = Little(uint64_t{1} << 60, 8);
  const std::string huge_header = huge + Little(MaskCrc32c(Crc32c(huge)), 4);
  const std::string large = Little(1000, 8);
  const std::string large_header = large + Little(MaskCrc32c(Crc32c(large)), 4);
  return {
      {"cut header", first + first.substr(0, 5), {"offset 21", "12 bytes", "only 5"}},
      {"cut body", first + first.substr(0, 14), {"offset 33", "9 bytes", "only 2"}},
      {"cut CRC", first.substr(0, 20), {"offset 12", "9 bytes", "only 8"}},
      {"no body", large_header, {"offset 12", "1004 bytes", "only 0"}},
      {"flipped length", first + bad_length, {"offset 29", "CRC", "record's length"}},
      {"flipped body", first + bad_body, {"offset 38", "CRC", "of the record,"}},
      {"flipped CRC", bad_crc, {"offset 17", "CRC"}},
      {"huge record", huge_header, {"offset 0", "at most 1000000", "1152921504606846976"}},
      {"idx file", ImagesBytes(10), {"offset 8", "no TFRecord file"}},
      {"cut gzip", Gzip(first + first).substr(0, 20), {"gzip", "cut short"}},
  };
}

TEST(TfRecordTest, BadFilesGiveFileOffsetExpectedAndFound) {
  for (const BadRecordFile& bad : BadRecordFiles()) {
    SCOPED_TRACE(bad.what);
    const absl::Status status = ReadAll(bad.bytes, 1000000).status();
    EXPECT_EQ(base::ExitCodeFor(status), base::kExitData) << status;
    const std::string message(status.message());
    EXPECT_THAT(message,
                AllOf(HasSubstr("a.tfrecord: "), HasSubstr("expected"), HasSubstr("found")));
    for (const std::string& part : bad.message) EXPECT_THAT(message, HasSubstr(part));
  }
}

}  // namespace
}  // namespace trainer
