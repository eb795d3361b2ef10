#include "trainer/data/record_stream.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <stop_token>
#include <utility>

#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/data/chunk_queue.h"
#include "trainer/data/image_example.h"
#include "trainer/data/pixels.h"

namespace trainer {
namespace {

constexpr size_t kChunkExamples = 64;
constexpr size_t kQueuedChunks = 8;  // ahead, for each reader
// The stream of random numbers for the shuffle buffer; epoch e's order of the files is stream e.
constexpr uint64_t kBufferStream = ~uint64_t{0};

// What one reader thread does. All readers follow one endless sequence of files, epoch after epoch;
// reader i of n reads those at places i, i + n, … of it.
class Reader {
 public:
  Reader(const RecordStreamOptions& options, int64_t example_size, size_t index, size_t readers)
      : options_(options),
        example_size_(example_size),
        index_(index),
        readers_(readers),
        order_(options.files) {}

  // Returns when stopped, at the first error, or when there is nothing for this shard.
  absl::Status Run(ChunkQueue& queue, const std::stop_token& stop) {
    const size_t files = order_.size();
    size_t empty_files = 0;
    for (size_t place = index_; !stop.stop_requested() && (taken_ > 0 || empty_files < files);
         place += readers_) {
      const int64_t taken_before = taken_;
      ASSIGN_OR_RETURN(const bool go_on, ReadFile(FileAt(place), queue, stop));
      if (!go_on) return absl::OkStatus();
      empty_files = taken_ > taken_before ? 0 : empty_files + 1;
    }
    return absl::OkStatus();
  }

 private:
  const std::string& FileAt(size_t place) {
    const size_t epoch = place / order_.size();
    if (options_.batcher.shuffle && (epoch != epoch_ || place == index_)) ShuffleFiles(epoch);
    return order_[place % order_.size()];
  }

  void ShuffleFiles(size_t epoch) {
    Random random(options_.batcher.seed, epoch);
    order_ = options_.files;
    for (size_t i = order_.size(); i > 1; --i) {
      std::swap(order_[i - 1], order_[random.Below(static_cast<uint32_t>(i))]);
    }
    epoch_ = epoch;
  }

  // False: stop.
  absl::StatusOr<bool> ReadFile(const std::string& file, ChunkQueue& queue,
                                const std::stop_token& stop) {
    ASSIGN_OR_RETURN(auto source, OpenByteSource(file));
    TfRecordReader reader(std::move(source));
    for (int64_t record = 0; !stop.stop_requested(); ++record) {
      if (record % options_.batcher.shard_count != options_.batcher.shard) {
        ASSIGN_OR_RETURN(const auto skipped, reader.Next());
        if (!skipped.has_value()) return true;
        continue;
      }
      ASSIGN_OR_RETURN(const ImageExample example, parser_.Next(reader, example_size_));
      if (example.pixels.empty()) return true;
      if (!Take(example, queue, stop)) return false;
    }
    return false;
  }

  bool Take(const ImageExample& example, ChunkQueue& queue, const std::stop_token& stop) {
    ++taken_;
    if (chunk_.labels.empty()) {
      chunk_.pixels.reserve(kChunkExamples * static_cast<size_t>(example_size_));
      chunk_.labels.reserve(kChunkExamples);
    }
    chunk_.pixels.insert(chunk_.pixels.end(), example.pixels.begin(), example.pixels.end());
    chunk_.labels.push_back(example.label);
    if (chunk_.labels.size() < kChunkExamples) return true;
    return queue.Push(std::exchange(chunk_, {}), stop);
  }

  const RecordStreamOptions& options_;
  const int64_t example_size_;
  const size_t index_, readers_;
  std::vector<std::string> order_;  // of this epoch
  size_t epoch_ = 0;
  ImageExampleParser parser_;
  Chunk chunk_;
  int64_t taken_ = 0;
};

absl::Status Validate(const RecordStreamOptions& options) {
  const BatcherOptions& batcher = options.batcher;
  if (batcher.batch_size <= 0) {
    return base::UsageError(base::StrCat("batch size ", batcher.batch_size, " is not above 0"));
  }
  if (batcher.shard < 0 || batcher.shard >= batcher.shard_count) {
    return base::UsageError(
        base::StrCat("shard ", batcher.shard, " is none of ", batcher.shard_count));
  }
  if (options.shuffle_buffer <= 0 || options.reader_threads <= 0) {
    return base::UsageError("the shuffle buffer and the reader threads must be above 0");
  }
  return absl::OkStatus();
}

// The size of the first example in the files; empty files before it are skipped.
absl::StatusOr<int64_t> FirstExampleSize(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(auto source, OpenByteSource(file));
    TfRecordReader reader(std::move(source));
    ImageExampleParser parser;
    ASSIGN_OR_RETURN(const ImageExample example, parser.Next(reader, 0));
    if (!example.pixels.empty()) return static_cast<int64_t>(example.pixels.size());
  }
  return base::DataError(base::StrCat(files.empty() ? "TFRecord input" : files.front(),
                                      ": expected examples, found none"));
}

size_t ReaderCount(const RecordStreamOptions& options) {
  return std::min(options.files.size(), static_cast<size_t>(options.reader_threads));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordStream>> RecordStream::Open(
    const RecordStreamOptions& options) {
  RETURN_IF_ERROR(Validate(options));
  ASSIGN_OR_RETURN(const int64_t example_size, FirstExampleSize(options.files));
  return std::unique_ptr<RecordStream>(new RecordStream(options, example_size));
}

RecordStream::RecordStream(const RecordStreamOptions& options, int64_t example_size)
    : options_(options),
      example_size_(example_size),
      random_(options.batcher.seed, kBufferStream),
      chunk_(std::make_unique<Chunk>()) {
  const size_t capacity = options_.batcher.shuffle ? options_.shuffle_buffer : 1;
  pixels_.resize(capacity * static_cast<size_t>(example_size_));
  labels_.resize(capacity);
  const size_t readers = ReaderCount(options_);
  for (size_t i = 0; i < readers; ++i) {
    queues_.push_back(std::make_unique<ChunkQueue>(kQueuedChunks));
    readers_.emplace_back([this, i, readers, &queue = *queues_.back()](std::stop_token stop) {
      queue.End(Reader(options_, example_size_, i, readers).Run(queue, stop));
    });
  }
}

RecordStream::~RecordStream() = default;

// Takes the readers in turn, so that the order does not depend on how fast each is.
absl::Status RecordStream::NextChunk() {
  const auto timeout = absl::ToChronoNanoseconds(options_.read_timeout);
  for (size_t ended = 0; ended < queues_.size(); ++ended) {
    ASSIGN_OR_RETURN(std::optional<Chunk> chunk, queues_[next_queue_]->Pop(timeout));
    next_queue_ = (next_queue_ + 1) % queues_.size();
    if (!chunk.has_value()) continue;
    *chunk_ = *std::move(chunk);
    chunk_position_ = 0;
    return absl::OkStatus();
  }
  return base::DataError(base::StrCat(
      options_.files.front(), " and the other TFRecord files: ", "expected examples for shard ",
      options_.batcher.shard, " of ", options_.batcher.shard_count, ", found none"));
}

absl::Status RecordStream::ReadInto(size_t slot) {
  if (chunk_position_ == chunk_->labels.size()) RETURN_IF_ERROR(NextChunk());
  const auto width = static_cast<size_t>(example_size_);
  std::memcpy(pixels_.data() + slot * width, chunk_->pixels.data() + chunk_position_ * width,
              width);
  labels_[slot] = chunk_->labels[chunk_position_++];
  return absl::OkStatus();
}

absl::Status RecordStream::Fill() {
  for (size_t slot = 0; slot < labels_.size(); ++slot) RETURN_IF_ERROR(ReadInto(slot));
  filled_ = true;
  return absl::OkStatus();
}

absl::Status RecordStream::Next(std::span<float> inputs, std::span<int32_t> labels) {
  if (!filled_) RETURN_IF_ERROR(Fill());
  const auto width = static_cast<size_t>(example_size_);
  const auto capacity = static_cast<uint32_t>(labels_.size());
  for (int64_t i = 0; i < options_.batcher.batch_size; ++i) {
    const size_t slot = random_.Below(capacity);
    ScalePixels({pixels_.data() + slot * width, width}, inputs.data() + i * example_size_);
    labels[i] = labels_[slot];
    RETURN_IF_ERROR(ReadInto(slot));
  }
  return absl::OkStatus();
}

}  // namespace trainer
