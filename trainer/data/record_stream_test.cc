#include "trainer/data/record_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/exit_codes.h"
#include "trainer/data/chunk_queue.h"
#include "trainer/data/image_example.h"
#include "trainer/data/test_util.h"

namespace trainer {
namespace {

using ::testing::HasSubstr;

// `size` examples whose first pixel is their number.
std::vector<std::string> WriteRecords(const TempFolder& folder, int64_t size, int64_t files) {
  Dataset dataset{.size = size, .example_size = 4};
  for (int64_t i = 0; i < size; ++i) {
    dataset.pixels.insert(dataset.pixels.end(), 4, static_cast<uint8_t>(i));
    dataset.labels.push_back(static_cast<uint8_t>(i % 10));
  }
  return WriteImageRecords(dataset, folder.path(), "train", files).value();
}

std::vector<int> Draw(RecordStream& stream, int64_t batch_size, int batches) {
  std::vector<int> drawn;
  std::vector<float> inputs(batch_size * 4);
  std::vector<int32_t> labels(batch_size);
  for (int batch = 0; batch < batches; ++batch) {
    const absl::Status status = stream.Next(inputs, labels);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) break;
    for (int64_t i = 0; i < batch_size; ++i) {
      const int number = static_cast<int>(inputs[i * 4] * 255 + 0.5f);
      EXPECT_EQ(labels[i], number % 10);
      drawn.push_back(number);
    }
  }
  return drawn;
}

std::unique_ptr<RecordStream> Open(const RecordStreamOptions& options) {
  auto stream = RecordStream::Open(options);
  EXPECT_TRUE(stream.ok()) << stream.status();
  return std::move(*stream);
}

TEST(RecordStreamTest, GivesFileOrderAgainAndAgainWithoutShuffle) {
  TempFolder folder;
  const auto files = WriteRecords(folder, 25, 3);
  const auto stream = Open({.files = files, .batcher = {.batch_size = 10, .shuffle = false}});
  EXPECT_EQ(stream->example_size(), 4);
  const std::vector<int> drawn = Draw(*stream, 10, 20);
  for (size_t i = 0; i < drawn.size(); ++i) EXPECT_EQ(drawn[i], static_cast<int>(i % 25));
}

TEST(RecordStreamTest, IsTheSameEveryTimeWithSeveralReadersToo) {
  TempFolder folder;
  const auto files = WriteRecords(folder, 200, 4);
  const RecordStreamOptions options{.files = files,
                                    .batcher = {.batch_size = 10, .seed = 5},
                                    .reader_threads = 3,
                                    .shuffle_buffer = 50};
  RecordStreamOptions other = options;
  other.batcher.seed = 6;
  const std::vector<int> drawn = Draw(*Open(options), 10, 60);
  EXPECT_EQ(Draw(*Open(options), 10, 60), drawn);
  EXPECT_NE(Draw(*Open(other), 10, 60), drawn);
  EXPECT_FALSE(std::is_sorted(drawn.begin(), drawn.begin() + 20));
}

TEST(RecordStreamTest, DrawsEveryExampleAboutEquallyOften) {
  TempFolder folder;
  const auto files = WriteRecords(folder, 200, 4);
  for (const int readers : {1, 3, 9}) {
    const auto stream = Open({.files = files,
                              .batcher = {.batch_size = 20},
                              .reader_threads = readers,
                              .shuffle_buffer = 100});
    std::map<int, int> counts;
    for (const int number : Draw(*stream, 20, 200)) ++counts[number];  // 20 passes
    EXPECT_EQ(counts.size(), 200u);
    for (const auto& [number, count] : counts) EXPECT_NEAR(count, 20, 15) << number;
  }
}

TEST(RecordStreamTest, ShardsAreDisjointAndCoverTheFiles) {
  TempFolder folder;
  const auto files = WriteRecords(folder, 90, 2);
  std::set<int> all;
  for (int64_t shard = 0; shard < 3; ++shard) {
    const auto stream = Open({.files = files,
                              .batcher = {.batch_size = 10, .shard = shard, .shard_count = 3},
                              .shuffle_buffer = 10});
    const std::vector<int> drawn = Draw(*stream, 10, 30);
    const std::set<int> mine(drawn.begin(), drawn.end());
    EXPECT_EQ(mine.size(), 30u);
    for (const int number : mine) EXPECT_TRUE(all.insert(number).second);
  }
  EXPECT_EQ(all.size(), 90u);
}

TEST(RecordStreamTest, ReportsACorruptRecordFromAReaderThread) {
  TempFolder folder;
  const auto files = WriteRecords(folder, 100, 1);
  std::string bytes = ReadFile(files[0]);
  bytes[bytes.size() - 10] ^= 1;
  WriteFile(files[0], bytes);
  const auto stream = Open({.files = files, .batcher = {.batch_size = 10}, .shuffle_buffer = 50});
  std::vector<float> inputs(40);
  std::vector<int32_t> labels(10);
  absl::Status status;
  for (int batch = 0; batch < 100 && status.ok(); ++batch) status = stream->Next(inputs, labels);
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitData) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(files[0] + ": offset"));
}

TEST(RecordStreamTest, AShardWithoutExamplesIsAnErrorNotAHang) {
  TempFolder folder;
  const auto files = WriteRecords(folder, 3, 1);
  const auto stream = Open({.files = files, .batcher = {.shard = 5, .shard_count = 6}});
  std::vector<float> inputs(400);
  std::vector<int32_t> labels(100);
  const absl::Status status = stream->Next(inputs, labels);
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitData);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("expected examples for shard 5 of 6, found none"));
}

TEST(RecordStreamTest, BadOptionsAndFilesAreErrorsAtOnce) {
  TempFolder folder;
  const auto files = WriteRecords(folder, 3, 1);
  const auto code = [](const RecordStreamOptions& options) {
    return base::ExitCodeFor(RecordStream::Open(options).status());
  };
  EXPECT_EQ(code({.files = files, .batcher = {.batch_size = 0}}), base::kExitUsage);
  EXPECT_EQ(code({.files = files, .batcher = {.shard = 2, .shard_count = 2}}), base::kExitUsage);
  EXPECT_EQ(code({.files = files, .reader_threads = 0}), base::kExitUsage);
  EXPECT_EQ(code({.files = files, .shuffle_buffer = 0}), base::kExitUsage);
  EXPECT_EQ(code({}), base::kExitData);
  EXPECT_EQ(code({.files = {folder.File("none.tfrecord")}}), base::kExitData);
}

TEST(ChunkQueueTest, PopGivesUpAfterItsTimeout) {
  ChunkQueue queue(1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(queue.Pop(std::chrono::milliseconds(1)).status()));
}

TEST(ChunkQueueTest, PushEndsWhenStopIsRequested) {
  ChunkQueue queue(1);
  std::jthread reader([&queue](const std::stop_token& stop) {
    EXPECT_TRUE(queue.Push({}, stop));
    EXPECT_FALSE(queue.Push({}, stop));
  });
}

}  // namespace
}  // namespace trainer
