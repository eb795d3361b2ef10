#include "trainer/data/input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/exit_codes.h"
#include "trainer/data/idx.h"
#include "trainer/data/image_example.h"
#include "trainer/data/linear.h"
#include "trainer/data/synthesize.h"
#include "trainer/data/test_util.h"

namespace trainer {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<DataSource> Open(const DataOptions& options) {
  auto source = OpenData(options);
  EXPECT_TRUE(source.ok()) << source.status();
  return *source;
}

// Draws one batch of 12 and checks its ranges.
std::vector<float> DrawImages(DataSource& source, const BatcherOptions& options) {
  auto input = source.NewInput(options);
  EXPECT_TRUE(input.ok()) << input.status();
  if (!input.ok()) return {};
  EXPECT_EQ((*input)->example_size(), 784);
  std::vector<float> inputs(options.batch_size * 784);
  std::vector<int32_t> labels(options.batch_size);
  EXPECT_TRUE((*input)->Next(inputs, labels, {}).ok());
  for (const float value : inputs) EXPECT_TRUE(value >= 0.0f && value <= 1.0f);
  for (const int32_t label : labels) EXPECT_TRUE(label >= 0 && label < 10);
  EXPECT_GT(std::accumulate(inputs.begin(), inputs.end(), 0.0f), 100.0f);
  return inputs;
}

constexpr SynthesizeOptions kSmall{.train_size = 240, .test_size = 30};
constexpr BatcherOptions kBatch{.batch_size = 12};

TEST(InputTest, DrawsDigitsWhereNoFolderIsGiven) {
  const auto source = Open({.synthetic_train = 240, .synthetic_test = 30});
  EXPECT_EQ(source->kind(), DataKind::kSynthetic);
  DrawImages(*source, kBatch);
  EXPECT_EQ((*source->Validation())->size, 20);
  EXPECT_EQ((*source->Test())->size, 30);
  EXPECT_EQ(*source->Test(), *source->Test()) << "made once";
}

TEST(InputTest, OpensIdxFolders) {
  TempFolder folder;
  ASSERT_TRUE(WriteIdxFolder(folder.path(), SynthesizeDigits(kSmall)).ok());
  const auto source = Open({.data_dir = folder.path()});
  EXPECT_EQ(source->kind(), DataKind::kIdx);
  const auto drawn = Open({.synthetic_train = 240, .synthetic_test = 30});
  EXPECT_EQ(DrawImages(*source, kBatch), DrawImages(*drawn, kBatch));
  EXPECT_EQ((*source->Validation())->size, 20);
  EXPECT_EQ((*source->Test())->size, 30);
}

TEST(InputTest, AWorkerDoesNotNeedTheTestSet) {
  TempFolder folder;
  ASSERT_TRUE(WriteIdxFolder(folder.path(), SynthesizeDigits(kSmall)).ok());
  std::filesystem::remove(folder.File("t10k-images-idx3-ubyte"));
  const auto source = Open({.data_dir = folder.path()});
  DrawImages(*source, kBatch);
  EXPECT_EQ(base::ExitCodeFor(source->Test().status()), base::kExitData);
}

TEST(InputTest, OpensFoldersAndPatternsOfTfRecords) {
  TempFolder folder;
  const Datasets digits = SynthesizeDigits(kSmall);
  ASSERT_TRUE(WriteImageRecords(*digits.train, folder.path(), "train", 2).ok());
  ASSERT_TRUE(WriteImageRecords(*digits.test, folder.path(), "test", 1).ok());
  for (const std::string& path : {folder.path(), folder.File("t*.tfrecord")}) {
    const auto source = Open({.data_dir = path, .shuffle_buffer = 50});
    EXPECT_EQ(source->kind(), DataKind::kTfRecord);
    DrawImages(*source, kBatch);
    EXPECT_EQ((*source->Test())->pixels, digits.test->pixels);
    EXPECT_TRUE(absl::IsNotFound(source->Validation().status()));
  }
}

TEST(InputTest, StreamsOfOneSourceDifferBySeedAndShard) {
  const auto source = Open({.synthetic_train = 240});
  const std::vector<float> one = DrawImages(*source, {.batch_size = 12, .seed = 1});
  EXPECT_EQ(one, DrawImages(*source, {.batch_size = 12, .seed = 1}));
  EXPECT_NE(one, DrawImages(*source, {.batch_size = 12, .seed = 2}));
  EXPECT_NE(one, DrawImages(*source, {.batch_size = 12, .seed = 1, .shard = 1, .shard_count = 2}));
  EXPECT_EQ((*source->NewInput({.shard = 1, .shard_count = 2}))->examples_per_epoch(), 110);
}

TEST(InputTest, GivesThePointsOfALine) {
  const auto source = Open({.kind = DataKind::kLinear});
  auto input = source->NewInput({.batch_size = 10000});
  ASSERT_TRUE(input.ok());
  EXPECT_EQ((*input)->example_size(), 1);
  std::vector<float> x(10000);
  std::vector<float> y(10000);
  ASSERT_TRUE((*input)->Next(x, {}, y).ok());
  double sum_x = 0, sum_xx = 0, sum_noise = 0, sum_noise2 = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double noise = y[i] - (2.0 * x[i] + 10.0);
    sum_x += x[i];
    sum_xx += x[i] * x[i];
    sum_noise += noise;
    sum_noise2 += noise * noise;
  }
  EXPECT_NEAR(sum_x / 10000, 0, 0.05);
  EXPECT_NEAR(sum_xx / 10000, 1, 0.06);
  EXPECT_NEAR(sum_noise / 10000, 0, 0.02);
  EXPECT_NEAR(sum_noise2 / 10000, 0.33 * 0.33, 0.01);
  EXPECT_TRUE(absl::IsNotFound(source->Test().status()));
}

TEST(InputTest, LinearPointsAreTheSameForTheSameSeedOnly) {
  std::vector<float> x1(8), y1(8), x2(8), y2(8);
  LinearPoints(3).Next(x1, y1);
  LinearPoints(3).Next(x2, y2);
  EXPECT_EQ(x1, x2);
  EXPECT_EQ(y1, y2);
  LinearPoints(3, 1).Next(x2, y2);
  EXPECT_NE(x1, x2);
}

struct BadInput {
  std::string what;
  std::string data_dir;
  DataKind kind;
  int64_t synthetic_train;
  BatcherOptions batcher;
  int exit_code;
  std::string message;
};

TEST(InputTest, BadInputSaysWhatIsWrong) {
  TempFolder empty;
  constexpr DataKind kAuto = DataKind::kAuto;
  const std::vector<BadInput> table = {
      {"missing", empty.File("none"), kAuto, 0, {}, base::kExitData, "none: expected a TFRecord"},
      {"empty", empty.path(), kAuto, 0, {}, base::kExitData, "found neither"},
      {"not idx", empty.path(), DataKind::kIdx, 0, {}, base::kExitData, "train-images-idx3-ubyte"},
      {"nothing drawn", "", kAuto, 0, {}, base::kExitData, "found none"},
      {"batch 0", "", kAuto, 24, {.batch_size = 0}, base::kExitUsage, "batch size 0"},
      {"shard 2 of 2", "", kAuto, 24, {.shard = 2, .shard_count = 2}, base::kExitUsage, "shard 2"},
      {"too many shards", "", kAuto, 24, {.shard_count = 23}, base::kExitUsage, "22 examples"},
  };
  for (const BadInput& bad : table) {
    SCOPED_TRACE(bad.what);
    DataOptions options;
    options.data_dir = bad.data_dir;
    options.kind = bad.kind;
    options.synthetic_train = bad.synthetic_train;
    auto source = OpenData(options);
    const absl::Status status =
        source.ok() ? (*source)->NewInput(bad.batcher).status() : source.status();
    EXPECT_EQ(base::ExitCodeFor(status), bad.exit_code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.message));
  }
}

}  // namespace
}  // namespace trainer
