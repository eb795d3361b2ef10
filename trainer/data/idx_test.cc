#include "trainer/data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/exit_codes.h"
#include "trainer/data/test_util.h"

namespace trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr DatasetParts kTrainOnly{.validation = false, .test = false};
constexpr DatasetParts kTestOnly{.train = false, .validation = false};

void WriteSet(const TempFolder& folder, uint32_t train, uint32_t test) {
  WriteFile(folder.File("train-images-idx3-ubyte"), ImagesBytes(train));
  WriteFile(folder.File("train-labels-idx1-ubyte"), LabelsBytes(train));
  WriteFile(folder.File("t10k-images-idx3-ubyte"), ImagesBytes(test));
  WriteFile(folder.File("t10k-labels-idx1-ubyte"), LabelsBytes(test));
}

TEST(IdxTest, LoadsAndSplitsAFolder) {
  TempFolder folder;
  WriteSet(folder, 24, 7);
  const auto datasets = LoadIdxFolder(folder.path(), {});
  ASSERT_TRUE(datasets.ok()) << datasets.status();
  EXPECT_EQ(datasets->validation->size, 2);
  EXPECT_EQ(datasets->train->size, 22);
  EXPECT_EQ(datasets->test->size, 7);
  EXPECT_EQ(datasets->train->rows, 2);
  EXPECT_EQ(datasets->train->columns, 3);
  EXPECT_EQ(datasets->train->example_size, 6);
  EXPECT_EQ(datasets->validation->pixels[6], 1);
  EXPECT_EQ(datasets->train->pixels[0], 2);
  EXPECT_EQ(datasets->train->labels[21], 3);
}

TEST(IdxTest, LoadsOnlyWhatIsAskedFor) {
  TempFolder folder;
  WriteSet(folder, 24, 7);
  std::filesystem::remove(folder.File("t10k-images-idx3-ubyte"));
  const auto train = LoadIdxFolder(folder.path(), kTrainOnly);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ(train->train->size, 22);
  EXPECT_EQ(train->train->pixels.size(), 22u * 6);
  EXPECT_EQ(train->validation, nullptr);
  EXPECT_EQ(train->test, nullptr);
  EXPECT_FALSE(LoadIdxFolder(folder.path(), kTestOnly).ok());
}

TEST(IdxTest, AcceptsEverySpellingPlainAndGzip) {
  for (const std::string separator : {"-", "."}) {
    for (const bool gzip : {false, true}) {
      TempFolder folder;
      const std::string suffix = gzip ? ".gz" : "";
      const auto pack = [&](const std::string& bytes) { return gzip ? Gzip(bytes) : bytes; };
      WriteFile(folder.File("t10k-images" + separator + "idx3-ubyte" + suffix),
                pack(ImagesBytes(3)));
      WriteFile(folder.File("t10k-labels" + separator + "idx1-ubyte" + suffix),
                pack(LabelsBytes(3)));
      EXPECT_TRUE(IsIdxFolder(folder.path()));
      const auto datasets = LoadIdxFolder(folder.path(), kTestOnly);
      ASSERT_TRUE(datasets.ok()) << datasets.status();
      EXPECT_EQ(datasets->test->size, 3);
      EXPECT_EQ(datasets->test->pixels[12], 2);
    }
  }
}

TEST(IdxTest, ReadsGzipMembersThatFollowEachOther) {
  const std::string images = ImagesBytes(3);
  TempFolder folder;
  WriteFile(folder.File("t10k-images-idx3-ubyte.gz"),
            Gzip(images.substr(0, 20)) + Gzip(images.substr(20)));
  WriteFile(folder.File("t10k-labels-idx1-ubyte"), LabelsBytes(3));
  const auto datasets = LoadIdxFolder(folder.path(), kTestOnly);
  ASSERT_TRUE(datasets.ok()) << datasets.status();
  EXPECT_EQ(datasets->test->pixels[12], 2);
}

TEST(IdxTest, WritesWhatItReads) {
  TempFolder folder;
  WriteSet(folder, 24, 7);
  const auto datasets = LoadIdxFolder(folder.path(), {});
  ASSERT_TRUE(datasets.ok()) << datasets.status();
  TempFolder copy;
  const absl::Status written = WriteIdxFolder(copy.File("new/folder"), *datasets);
  ASSERT_TRUE(written.ok()) << written;
  for (const std::string& name : folder.Names()) {
    EXPECT_EQ(ReadFile(copy.File("new/folder/" + name)), ReadFile(folder.File(name))) << name;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(copy.File("new/folder")), {}), 4);
}

struct BadFile {
  std::string what;
  std::string images;
  std::string labels;
  std::vector<std::string> message;  // all of them stand in the error
  IdxOptions options;
};

std::vector<BadFile> BadFiles() {
  const std::string images = ImagesBytes(3);
  const std::string labels = LabelsBytes(3);
  std::string bad_label = labels;
  bad_label[9] = 10;
  std::string bad_crc = Gzip(images);
  bad_crc[bad_crc.size() - 6] ^= 1;
  const std::string huge = BigEndianBytes({0x803, 0xffffffff, 28, 28});
  return {
      {"empty images",
       "",
       labels,
       {"images-idx3-ubyte: offset 0", "magic number", "end of the file"}},
      {"cut header",
       images.substr(0, 10),
       labels,
       {"images-idx3-ubyte: offset 8", "number of rows"}},
      {"labels for images",
       labels,
       labels,
       {"offset 0", "0x00000803", "0x00000801", "labels file"}},
      {"images for labels",
       images,
       images,
       {"labels-idx1-ubyte: offset 0", "0x00000801", "images file"}},
      {"text", "<html>not found</html>", labels, {"offset 0", "0x00000803", "0x3c68746d"}},
      {"cut pixels",
       images.substr(0, 30),
       labels,
       {"images-idx3-ubyte: offset 16", "18 bytes", "30 bytes"}},
      {"cut labels",
       images,
       labels.substr(0, 10),
       {"labels-idx1-ubyte: offset 8", "3 bytes", "10 bytes"}},
      {"trailing pixels",
       images + "x",
       labels,
       {"images-idx3-ubyte: offset 34", "end of the file", "more"}},
      {"trailing labels",
       images,
       labels + "x",
       {"labels-idx1-ubyte: offset 11", "end of the file", "more"}},
      {"fewer labels",
       images,
       LabelsBytes(2),
       {"labels-idx1-ubyte: offset 4", "3 labels", "found 2"}},
      {"label 10", images, bad_label, {"labels-idx1-ubyte: offset 9", "0 to 9", "found 10"}},
      {"no rows", BigEndianBytes({0x803, 3, 0, 3}), labels, {"offset 8", "0x3"}},
      {"other shape", images, labels, {"offset 8", "28x28", "2x3"}, {.rows = 28, .columns = 28}},
      {"huge claim", huge, labels, {"offset 16", "at most 16 bytes"}},
      {"huge sides", BigEndianBytes({0x803, 1, 0x10000, 0x10000}), labels, {"offset 8", "65536"}},
      {"huge claim in gzip", Gzip(huge), labels, {"offset 16", "at most"}},
      {"cut gzip",
       Gzip(images).substr(0, 30),
       labels,
       {"images-idx3-ubyte: offset 30", "cut short"}},
      {"corrupt gzip", bad_crc, labels, {"gzip", "incorrect data check"}},
      {"bytes after gzip", Gzip(images) + "x", labels, {"end of the file after the gzip stream"}},
      {"cut inside gzip", Gzip(images.substr(0, 30)), labels, {"offset 30", "4 more bytes"}},
  };
}

TEST(IdxTest, BadFilesGiveFileOffsetExpectedAndFound) {
  for (const BadFile& bad : BadFiles()) {
    SCOPED_TRACE(bad.what);
    TempFolder folder;
    WriteFile(folder.File("t10k-images-idx3-ubyte"), bad.images);
    WriteFile(folder.File("t10k-labels-idx1-ubyte"), bad.labels);
    const absl::Status status = LoadIdxFolder(folder.path(), kTestOnly, bad.options).status();
    EXPECT_EQ(base::ExitCodeFor(status), base::kExitData) << status;
    const std::string message(status.message());
    EXPECT_THAT(message, AllOf(HasSubstr(folder.path() + "/t10k-"), HasSubstr("expected"),
                               HasSubstr("found")));
    for (const std::string& part : bad.message) EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(IdxTest, BadFilesAreFoundAlsoWhereTheirExamplesAreNotKept) {
  TempFolder folder;
  WriteSet(folder, 24, 7);
  std::string labels = LabelsBytes(24);
  labels[8] = 77;  // of the validation part
  WriteFile(folder.File("train-labels-idx1-ubyte"), labels);
  EXPECT_THAT(std::string(LoadIdxFolder(folder.path(), kTrainOnly).status().message()),
              HasSubstr("found 77"));
}

TEST(IdxTest, MissingFileSaysWhichAndWhatToDo) {
  TempFolder folder;
  EXPECT_FALSE(IsIdxFolder(folder.path()));
  const absl::Status status = LoadIdxFolder(folder.path(), {}).status();
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitData);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(folder.path()), HasSubstr("train-images-idx3-ubyte"),
                    HasSubstr("trainer data synthesize")));
}

TEST(IdxTest, AFolderInAFilesPlaceIsAnError) {
  TempFolder folder;
  std::filesystem::create_directory(folder.File("t10k-images-idx3-ubyte"));
  EXPECT_THAT(std::string(LoadIdxFolder(folder.path(), kTestOnly).status().message()),
              HasSubstr("not a plain file"));
}

TEST(IdxTest, ReadsTheRealSet) {
  const std::string folder = "../shared/data/mnist";
  if (!IsIdxFolder(folder)) GTEST_SKIP() << "SKIPPED: no real MNIST files in " << folder;
  const auto datasets = LoadIdxFolder(folder, {}, {.rows = 28, .columns = 28});
  ASSERT_TRUE(datasets.ok()) << datasets.status();
  EXPECT_EQ(datasets->train->size, 55000);
  EXPECT_EQ(datasets->validation->size, 5000);
  EXPECT_EQ(datasets->test->size, 10000);
  const auto count = [](const Dataset& dataset, int digit) {
    return std::ranges::count(dataset.labels, digit);
  };
  // The published class counts of the 60,000 and the 10,000.
  EXPECT_EQ(count(*datasets->train, 0) + count(*datasets->validation, 0), 5923);
  EXPECT_EQ(count(*datasets->train, 9) + count(*datasets->validation, 9), 5949);
  EXPECT_EQ(count(*datasets->test, 0), 980);
  EXPECT_EQ(count(*datasets->test, 9), 1009);
  EXPECT_EQ(datasets->validation->labels[0], 5);
  // The mean pixel of the 60,000 is the well-known 0.1307.
  const auto sum = [](const Dataset& dataset) {
    return std::accumulate(dataset.pixels.begin(), dataset.pixels.end(), int64_t{0});
  };
  const double mean =
      static_cast<double>(sum(*datasets->train) + sum(*datasets->validation)) / (60000.0 * 784);
  EXPECT_NEAR(mean / 255, 0.1307, 0.00005);
}

}  // namespace
}  // namespace trainer
