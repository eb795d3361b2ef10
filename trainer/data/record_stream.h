// Batches streamed from TFRecord files that need not fit into memory: reader threads fetch ahead, a
// buffer of examples is drawn from at random, and the files are read again and again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/data/dataset.h"
#include "trainer/data/random.h"

namespace trainer {

class ChunkQueue;
struct Chunk;

struct RecordStreamOptions {
  std::vector<std::string> files;
  BatcherOptions batcher;          // a shard takes every shard_count-th record of each file
  int reader_threads = 1;          // at most one a file
  int64_t shuffle_buffer = 10000;  // examples; without batcher.shuffle they come in file order
  absl::Duration read_timeout = absl::Seconds(60);  // for the next examples to be read
};

// The same options give the same batches, however fast the readers are. Not thread-safe; its
// threads end with it.
class RecordStream {
 public:
  // Reads the first example, for its size. kDataLoss: a file is missing, corrupt or empty;
  // kInvalidArgument: options that make no sense.
  static absl::StatusOr<std::unique_ptr<RecordStream>> Open(const RecordStreamOptions& options);

  // As Batcher::Next. kDataLoss: what the reader threads ran into; kDeadlineExceeded: the files'
  // storage does not answer.
  absl::Status Next(std::span<float> inputs, std::span<int32_t> labels);

  int64_t example_size() const { return example_size_; }
  ~RecordStream();

 private:
  RecordStream(const RecordStreamOptions& options, int64_t example_size);
  absl::Status NextChunk();
  absl::Status ReadInto(size_t slot);
  absl::Status Fill();

  const RecordStreamOptions options_;
  const int64_t example_size_;
  Random random_;
  std::vector<uint8_t> pixels_;  // the shuffle buffer: (capacity, D)
  std::vector<uint8_t> labels_;  // (capacity)
  bool filled_ = false;
  std::unique_ptr<Chunk> chunk_;  // what is being taken from
  size_t chunk_position_ = 0;
  size_t next_queue_ = 0;
  std::vector<std::unique_ptr<ChunkQueue>> queues_;  // one a reader
  std::vector<std::jthread> readers_;                // last: they use the queues
};

}  // namespace trainer
