#include "trainer/data/image_example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/exit_codes.h"
#include "base/str_cat.h"
#include "trainer/data/example.pb.h"
#include "trainer/data/test_util.h"

namespace trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Dataset NumberedDataset(int64_t size) {
  Dataset dataset{.size = size, .example_size = 4, .rows = 2, .columns = 2};
  for (int64_t i = 0; i < size; ++i) {
    dataset.pixels.insert(dataset.pixels.end(), 4, static_cast<uint8_t>(i));
    dataset.labels.push_back(static_cast<uint8_t>(i % 10));
  }
  return dataset;
}

TEST(ImageExampleTest, EncodesAsTensorFlowDoes) {
  const std::vector<uint8_t> pixels = {1, 2};
  const std::string encoded = EncodeImageExample({pixels, 7});
  // Field by field from the message's description; maps may come in any order, so entries are
  // looked for one by one.
  EXPECT_THAT(encoded, HasSubstr(std::string("\x0a\x09image_raw\x12\x06\x0a\x04\x0a\x02\x01\x02")));
  EXPECT_THAT(encoded, HasSubstr(std::string("\x0a\x06pixels\x12\x05\x1a\x03\x0a\x01\x02")));
  EXPECT_THAT(encoded, HasSubstr(std::string("\x0a\x05label\x12\x05\x1a\x03\x0a\x01\x07")));
}

TEST(ImageExampleTest, WritesSeveralFilesAndReadsThemBack) {
  TempFolder folder;
  const Dataset dataset = NumberedDataset(25);
  const auto files = WriteImageRecords(dataset, folder.path(), "train", 3);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(folder.Names(),
              testing::ElementsAre("train-00000-of-00003.tfrecord", "train-00001-of-00003.tfrecord",
                                   "train-00002-of-00003.tfrecord"));
  const auto loaded = LoadImageRecords(*files);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->size, 25);
  EXPECT_EQ(loaded->rows, 2);
  EXPECT_EQ(loaded->pixels, dataset.pixels);
  EXPECT_EQ(loaded->labels, dataset.labels);
}

TEST(ImageExampleTest, FindsFilesByFolderNameAndPattern) {
  TempFolder folder;
  for (const char* name :
       {"train-1.tfrecord", "val-1.tfrecord", "test-1.tfrecord", "notes.txt", "train-0.tfrecord"}) {
    WriteFile(folder.File(name), "");
  }
  const auto all = FindRecordFiles(folder.path());
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(all->train, testing::ElementsAre(folder.File("train-0.tfrecord"),
                                               folder.File("train-1.tfrecord")));
  EXPECT_THAT(all->validation, testing::ElementsAre(folder.File("val-1.tfrecord")));
  EXPECT_THAT(all->test, testing::ElementsAre(folder.File("test-1.tfrecord")));
  EXPECT_EQ(FindRecordFiles(folder.File("train-?.tfrecord"))->train.size(), 2u);
  EXPECT_EQ(FindRecordFiles(folder.File("train-0.tfrecord"))->train.size(), 1u);
  EXPECT_EQ(base::ExitCodeFor(FindRecordFiles(folder.File("none*")).status()), base::kExitData);
}

struct BadExample {
  std::string what;
  std::function<void(google::protobuf::Map<std::string, tfexample::Feature>&)> change;
  std::vector<std::string> message;
};

std::vector<BadExample> BadExamples() {
  using Features = google::protobuf::Map<std::string, tfexample::Feature>;
  return {
      {"no image", [](Features& f) { f.erase("image_raw"); }, {"image_raw", "no such feature"}},
      {"float image",
       [](Features& f) { f["image_raw"].mutable_float_list()->add_value(1); },
       {"image_raw with one bytes", "1 float"}},
      {"empty image",
       [](Features& f) { f["image_raw"].mutable_bytes_list()->set_value(0, ""); },
       {"image_raw of 4 bytes", "0 bytes"}},
      {"other size",
       [](Features& f) { f["image_raw"].mutable_bytes_list()->set_value(0, "123"); },
       {"image_raw of 4 bytes", "3 bytes"}},
      {"other count",
       [](Features& f) { f["pixels"].mutable_int64_list()->set_value(0, 784); },
       {"pixels to be 4", "found 784"}},
      {"two labels",
       [](Features& f) { f["label"].mutable_int64_list()->add_value(1); },
       {"label with one int64", "2 int64"}},
      {"no label", [](Features& f) { f.erase("label"); }, {"label", "no such feature"}},
      {"label 10",
       [](Features& f) { f["label"].mutable_int64_list()->set_value(0, 10); },
       {"0 to 9", "found 10"}},
      {"label -1",
       [](Features& f) { f["label"].mutable_int64_list()->set_value(0, -1); },
       {"0 to 9", "found -1"}},
      {"empty label", [](Features& f) { f["label"].Clear(); }, {"an empty feature"}},
  };
}

TEST(ImageExampleTest, BadExamplesGiveFileOffsetExpectedAndFound) {
  const std::vector<uint8_t> pixels = {1, 2, 3, 4};
  const std::string good = EncodeImageExample({pixels, 7});
  for (const BadExample& bad : BadExamples()) {
    SCOPED_TRACE(bad.what);
    tfexample::Example example;
    ASSERT_TRUE(example.ParseFromString(good));
    bad.change(*example.mutable_features()->mutable_feature());
    TempFolder folder;
    auto writer = TfRecordWriter::Create(folder.File("a.tfrecord"));
    ASSERT_TRUE(writer.ok() && writer->Append(good).ok() &&
                writer->Append(example.SerializeAsString()).ok() && writer->Close().ok());
    const absl::Status status = LoadImageRecords({folder.File("a.tfrecord")}).status();
    EXPECT_EQ(base::ExitCodeFor(status), base::kExitData) << status;
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr(base::StrCat("a.tfrecord: offset ", good.size() + 16, ":")));
    for (const std::string& part : bad.message) EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(ImageExampleTest, RecordsThatAreNoExamplesAndEmptyFilesAreErrors) {
  TempFolder folder;
  auto writer = TfRecordWriter::Create(folder.File("a.tfrecord"));
  ASSERT_TRUE(writer.ok() && writer->Append("\xff\xff\xff").ok() && writer->Close().ok());
  EXPECT_THAT(std::string(LoadImageRecords({folder.File("a.tfrecord")}).status().message()),
              AllOf(HasSubstr("offset 0"), HasSubstr("tf.train.Example")));
  WriteFile(folder.File("b.tfrecord"), "");
  EXPECT_THAT(std::string(LoadImageRecords({folder.File("b.tfrecord")}).status().message()),
              HasSubstr("b.tfrecord: expected examples, found none"));
}

}  // namespace
}  // namespace trainer
