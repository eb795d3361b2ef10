// Where a training run's examples come from, whichever kind they are: idx files, TFRecord files,
// digits drawn in memory, or the points of a line. All that the training loop knows of data.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace trainer {

enum class DataKind {
  kAuto,      // by what `data_dir` holds: digits drawn in memory where it is empty
  kIdx,       // a folder with the four MNIST-format files
  kTfRecord,  // a folder with *.tfrecord files, one such file, or a pattern (data/train-*.tfrecord)
  kSynthetic,  // drawn digits; data_dir is not read
  kLinear,     // y = 2x + 10 + noise; data_dir is not read
};

struct DataOptions {
  std::string data_dir;  // see DataKind; "" with kAuto: drawn digits
  DataKind kind = DataKind::kAuto;
  int64_t synthetic_train = 60000;  // drawn digits: in the training file, validation included
  int64_t synthetic_test = 10000;
  uint64_t synthetic_seed = 1;     // of the drawings, the same for all tasks of a cluster
  int reader_threads = 1;          // TFRecord: that read and check files ahead
  int64_t shuffle_buffer = 10000;  // TFRecord: examples to draw from
};

// One endless stream of batches. Not thread-safe: one a thread (or tower).
class Input {
 public:
  virtual ~Input() = default;

  // Draws the next batch. Classification fills inputs (batch_size, D) with f32 in [0, 1] and labels
  // (batch_size); regression fills inputs (batch_size, 1) and targets (batch_size, 1). The other
  // span may be empty. kDataLoss: a file turned out to be unusable.
  virtual absl::Status Next(std::span<float> inputs, std::span<int32_t> labels,
                            std::span<float> targets) = 0;

  virtual int64_t example_size() const = 0;        // D
  virtual int64_t examples_per_epoch() const = 0;  // of this stream's shard; 0: not known
};

// The data behind the streams, held once a process. Each part is read when it is first asked for,
// so a worker never holds the test set. Thread-safe.
class DataSource {
 public:
  virtual ~DataSource() = default;
  virtual DataKind kind() const = 0;  // never kAuto

  // A stream of training batches; options.seed and .shard are what makes two streams differ.
  // kInvalidArgument: more shards than examples; kDataLoss: files missing or unusable.
  virtual absl::StatusOr<std::unique_ptr<Input>> NewInput(const BatcherOptions& options) = 0;

  // The whole set in file order, for evaluation. kNotFound: this kind of data has none.
  virtual absl::StatusOr<std::shared_ptr<const Dataset>> Validation() = 0;
  virtual absl::StatusOr<std::shared_ptr<const Dataset>> Test() = 0;
};

// kDataLoss: data_dir is not there or holds nothing of the kind.
absl::StatusOr<std::shared_ptr<DataSource>> OpenData(const DataOptions& options);

}  // namespace trainer
