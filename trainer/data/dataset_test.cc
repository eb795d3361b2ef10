#include "trainer/data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "trainer/data/pixels.h"

namespace trainer {
namespace {

// N examples of two pixels; the label is the index and so is the first pixel.
std::shared_ptr<const Dataset> MakeDataset(int64_t size) {
  Dataset dataset{.size = size, .example_size = 2, .rows = 1, .columns = 2};
  for (int64_t i = 0; i < size; ++i) {
    dataset.pixels.push_back(static_cast<uint8_t>(i));
    dataset.pixels.push_back(255);
    dataset.labels.push_back(static_cast<uint8_t>(i));
  }
  return std::make_shared<const Dataset>(std::move(dataset));
}

std::vector<int32_t> Draw(Batcher& batcher, int64_t batch_size, int batches) {
  std::vector<int32_t> drawn;
  std::vector<float> inputs(batch_size * 2);
  std::vector<int32_t> labels(batch_size);
  for (int i = 0; i < batches; ++i) {
    batcher.Next(inputs, labels);
    drawn.insert(drawn.end(), labels.begin(), labels.end());
  }
  return drawn;
}

TEST(BatcherTest, DrawsEveryExampleOnceAnEpoch) {
  Batcher batcher(MakeDataset(20), {.batch_size = 5, .seed = 3});
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<int32_t> drawn = Draw(batcher, 5, 4);
    EXPECT_FALSE(std::is_sorted(drawn.begin(), drawn.end()));
    std::sort(drawn.begin(), drawn.end());
    std::vector<int32_t> all(20);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(drawn, all);
  }
}

// Pins the algorithm: a change of it would silently change every seeded run.
TEST(BatcherTest, DrawsTheSameBatchesOnEveryPlatform) {
  Batcher batcher(MakeDataset(10), {.batch_size = 10, .seed = 1});
  EXPECT_EQ(Draw(batcher, 10, 1), (std::vector<int32_t>{3, 5, 2, 8, 0, 6, 4, 1, 7, 9}));
}

TEST(BatcherTest, ReshufflesEachEpochAndDiffersBySeed) {
  Batcher one(MakeDataset(50), {.batch_size = 50, .seed = 1});
  Batcher two(MakeDataset(50), {.batch_size = 50, .seed = 2});
  const std::vector<int32_t> first = Draw(one, 50, 1);
  EXPECT_NE(first, Draw(one, 50, 1));
  EXPECT_NE(first, Draw(two, 50, 1));
}

TEST(BatcherTest, FillsTheLastBatchOfAnEpochFromTheNext) {
  Batcher batcher(MakeDataset(5), {.batch_size = 3, .shuffle = false});
  EXPECT_EQ(Draw(batcher, 3, 3), (std::vector<int32_t>{0, 1, 2, 3, 4, 0, 1, 2, 3}));
  EXPECT_EQ(batcher.state().epoch, 1);
  EXPECT_EQ(batcher.state().position, 4);
}

TEST(BatcherTest, ContinuesFromASavedState) {
  const BatcherOptions options{.batch_size = 4, .seed = 7};
  Batcher whole(MakeDataset(11), options);
  Draw(whole, 4, 9);
  const BatcherState state = whole.state();
  const std::vector<int32_t> rest = Draw(whole, 4, 20);
  Batcher resumed(MakeDataset(11), options);
  resumed.Restore(state);
  EXPECT_EQ(Draw(resumed, 4, 20), rest);
}

TEST(BatcherTest, ShardsAreDisjointAndCoverTheSet) {
  std::set<int32_t> seen;
  for (int64_t shard = 0; shard < 3; ++shard) {
    Batcher batcher(MakeDataset(10), {.batch_size = 1, .shard = shard, .shard_count = 3});
    const auto count = static_cast<int>(batcher.examples_per_epoch());
    EXPECT_EQ(count, shard == 0 ? 4 : 3);
    for (const int32_t label : Draw(batcher, 1, count)) {
      EXPECT_EQ(label % 3, shard);
      EXPECT_TRUE(seen.insert(label).second);
    }
  }
  EXPECT_EQ(seen.size(), 10u);
}

TEST(BatcherTest, PairsInputsWithTheirLabels) {
  Batcher batcher(MakeDataset(100), {.batch_size = 10});
  std::vector<float> inputs(20);
  std::vector<int32_t> labels(10);
  for (int batch = 0; batch < 25; ++batch) {
    batcher.Next(inputs, labels);
    for (size_t i = 0; i < labels.size(); ++i) {
      EXPECT_FLOAT_EQ(inputs[2 * i], static_cast<float>(labels[i]) / 255);
      EXPECT_EQ(inputs[2 * i + 1], 1.0f);
    }
  }
}

TEST(ScalePixelsTest, MapsBytesOntoZeroToOne) {
  std::vector<uint8_t> bytes(256);
  std::iota(bytes.begin(), bytes.end(), 0);
  std::vector<float> scaled(256);
  ScalePixels(bytes, scaled.data());
  EXPECT_EQ(scaled.front(), 0.0f);
  EXPECT_EQ(scaled.back(), 1.0f);
  for (size_t i = 0; i < scaled.size(); ++i) EXPECT_FLOAT_EQ(scaled[i], i / 255.0f);
}

TEST(CopyExamplesTest, CopiesInFileOrder) {
  std::vector<float> inputs(6);
  std::vector<int32_t> labels(3);
  CopyExamples(*MakeDataset(10), 4, inputs, labels);
  EXPECT_EQ(labels, (std::vector<int32_t>{4, 5, 6}));
  EXPECT_FLOAT_EQ(inputs[2], 5 / 255.0f);
}

}  // namespace
}  // namespace trainer
