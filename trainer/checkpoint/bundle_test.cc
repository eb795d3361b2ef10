#include "trainer/checkpoint/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <numeric>

#include "base/exit_codes.h"
#include "trainer/checkpoint/bundle_table.h"
#include "trainer/data/test_folder.h"

namespace trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> Iota(int64_t count, float first) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return values;
}

class BundleTest : public ::testing::Test {
 protected:
  // Writes "w" (5, 3) in two blocks of rows over two data files, "b" (3) whole in the second.
  void WriteTwoShards() {
    auto first = BundleDataWriter::Create(Files::Real(), prefix_, 0, 2);
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_TRUE((*first)->AddFloats("w", {{5, 3}, 0, 2}, Iota(6, 0)).ok());
    ASSERT_TRUE((*first)->AddInt64("global_step", 42).ok());
    shards_.push_back(*(*first)->Finish());
    auto second = BundleDataWriter::Create(Files::Real(), prefix_, 1, 2);
    ASSERT_TRUE((*second)->AddFloats("b", {{3}}, Iota(3, 100)).ok());
    ASSERT_TRUE((*second)->AddFloats("w", {{5, 3}, 2, 3}, Iota(9, 6)).ok());
    shards_.push_back(*(*second)->Finish());
  }
  void WriteIndex() {
    const auto index = EncodeBundleIndex(shards_);
    ASSERT_TRUE(index.ok()) << index.status();
    ASSERT_TRUE(WriteFileAtomically(Files::Real(), BundleIndexPath(prefix_), *index).ok());
  }

  TestFolder folder_;
  const std::string prefix_ = folder_.path() + "/model.ckpt-42";
  std::vector<bundle::ShardEntries> shards_;
};

TEST_F(BundleTest, ReadsBackAWholeTensorOutOfItsParts) {
  WriteTwoShards();
  WriteIndex();
  const auto reader = BundleReader::Open(prefix_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT((*reader)->Find("w")->shape, ElementsAre(5, 3));
  std::vector<float> values(15);
  ASSERT_TRUE((*reader)->ReadFloats("w", 0, values).ok());
  EXPECT_EQ(values, Iota(15, 0));
  EXPECT_EQ(*(*reader)->ReadInt64("global_step"), 42);
  EXPECT_TRUE((*reader)->VerifyChecksums().ok());
}

TEST_F(BundleTest, ReadsRowsAcrossParts) {
  WriteTwoShards();
  WriteIndex();
  const auto reader = BundleReader::Open(prefix_);
  std::vector<float> values(6);
  ASSERT_TRUE((*reader)->ReadFloats("w", 1, values).ok());
  EXPECT_EQ(values, Iota(6, 3));
}

TEST_F(BundleTest, LeavesNoTemporaryFiles) {
  WriteTwoShards();
  WriteIndex();
  EXPECT_THAT(*ListFolder(folder_.path()),
              ElementsAre("model.ckpt-42.data-00000-of-00002", "model.ckpt-42.data-00001-of-00002",
                          "model.ckpt-42.index"));
}

TEST_F(BundleTest, RefusesAnIndexOfAnUnfinishedTensor) {
  WriteTwoShards();
  shards_[1].mutable_tensors()->DeleteSubrange(1, 1);
  const auto index = EncodeBundleIndex(shards_);
  EXPECT_EQ(base::ExitCodeFor(index.status()), base::kExitData);
  EXPECT_THAT(index.status().message(), HasSubstr("2 of the 5 rows of w"));
}

TEST_F(BundleTest, RefusesValuesThatDoNotFitTheRows) {
  auto writer = BundleDataWriter::Create(Files::Real(), prefix_, 0, 1);
  EXPECT_FALSE((*writer)->AddFloats("w", {{5, 3}, 4, 2}, Iota(6, 0)).ok());
  EXPECT_FALSE((*writer)->AddFloats("w", {{5, 3}}, Iota(14, 0)).ok());
}

TEST_F(BundleTest, NamesAMissingDataFile) {
  WriteTwoShards();
  WriteIndex();
  std::filesystem::remove(BundleDataPath(prefix_, 1, 2));
  const auto reader = BundleReader::Open(prefix_);
  EXPECT_EQ(base::ExitCodeFor(reader.status()), base::kExitData);
  EXPECT_THAT(reader.status().message(), HasSubstr("data-00001-of-00002"));
}

TEST_F(BundleTest, NamesATruncatedDataFile) {
  WriteTwoShards();
  WriteIndex();
  std::filesystem::resize_file(BundleDataPath(prefix_, 1, 2), 20);
  EXPECT_THAT(BundleReader::Open(prefix_).status().message(), HasSubstr("found 20"));
}

TEST_F(BundleTest, NoticesAFlippedByteOfData) {
  WriteTwoShards();
  WriteIndex();
  folder_.FlipByte("model.ckpt-42.data-00000-of-00002", 5);
  const auto reader = BundleReader::Open(prefix_);
  ASSERT_TRUE(reader.ok());
  EXPECT_THAT((*reader)->VerifyChecksums().message(), HasSubstr("(w)"));
  std::vector<float> row(3);
  EXPECT_FALSE((*reader)->ReadFloats("w", 0, row).ok());
}

TEST_F(BundleTest, RefusesEntriesThatShareBytes) {
  WriteTwoShards();
  // A second name for each of many tensors at the same place.
  for (int i = 0; i < 100; ++i) {
    bundle::ShardEntries::Tensor copy = shards_[1].tensors(0);
    copy.set_name("copy" + std::to_string(i));
    *shards_[1].add_tensors() = copy;
  }
  WriteIndex();
  EXPECT_THAT(BundleReader::Open(prefix_).status().message(), HasSubstr("overlaps"));
}

TEST(BundleIndexTest, RefusesRecordsThatLie) {
  struct Case {
    const char* what;
    std::function<void(bundle::BundleHeader&, bundle::BundleEntry&)> spoil;
  };
  using Header = bundle::BundleHeader;
  using Entry = bundle::BundleEntry;
  const Case cases[] = {
      {"no shards", [](Header& h, Entry&) { h.set_num_shards(0); }},
      {"too many shards", [](Header& h, Entry&) { h.set_num_shards(1 << 30); }},
      {"big endian", [](Header& h, Entry&) { h.set_endianness(1); }},
      {"newer reader needed", [](Header& h, Entry&) { h.mutable_version()->set_min_consumer(2); }},
      {"shard out of range", [](Header&, Entry& e) { e.set_shard_id(1); }},
      {"negative shard", [](Header&, Entry& e) { e.set_shard_id(-1); }},
      {"negative offset", [](Header&, Entry& e) { e.set_offset(-8); }},
      {"overflowing end", [](Header&, Entry& e) { e.set_offset(INT64_MAX); }},
      {"size against shape", [](Header&, Entry& e) { e.set_size(16); }},
      {"negative dimension", [](Header&, Entry& e) { e.mutable_shape()->add_dim()->set_size(-1); }},
      {"overflowing shape",
       [](Header&, Entry& e) {
         for (int i = 0; i < 3; ++i) e.mutable_shape()->add_dim()->set_size(int64_t{1} << 40);
       }},
      {"slice of another rank", [](Header&, Entry& e) { e.add_slices(); }},
      {"slice that is not there",
       [](Header&, Entry& e) { e.add_slices()->add_extent()->set_length(1); }},
  };
  for (const Case& c : cases) {
    Header header;
    header.set_num_shards(1);
    Entry entry;
    entry.set_dtype(kDtypeFloat);
    entry.mutable_shape()->add_dim()->set_size(3);
    entry.set_size(12);
    const auto encode = [&] {
      const TableRecord records[] = {{"", header.SerializeAsString()},
                                     {"w", entry.SerializeAsString()}};
      return *EncodeTable(records);
    };
    EXPECT_TRUE(DecodeBundleIndex(encode()).ok());
    c.spoil(header, entry);
    EXPECT_EQ(base::ExitCodeFor(DecodeBundleIndex(encode()).status()), base::kExitData) << c.what;
  }
}

}  // namespace
}  // namespace trainer
