// Examples in memory, and the seeded, sharded, resumable stream of batches drawn from them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace trainer {

// Classification examples: pixels stay bytes (a quarter of the memory) and are scaled to [0, 1]
// when a batch is drawn. Immutable once built, so shared between threads.
struct Dataset {
  int64_t size = 0;               // N
  int64_t example_size = 0;       // D, e.g. 784
  int64_t rows = 0, columns = 0;  // image height and width
  std::vector<uint8_t> pixels;    // (N, D)
  std::vector<uint8_t> labels;    // (N), 0 … 9
};

// Train 55,000 / validation 5,000 / test 10,000 for the full MNIST-format set. Validation is the
// first 5,000 of the training file, as the classic tutorial splits it.
struct Datasets {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> validation;
  std::shared_ptr<const Dataset> test;
};

// Which parts of a set to make: a worker holds only what it trains on.
struct DatasetParts {
  bool train = true;
  bool validation = true;
  bool test = true;
};

// How many of `train_file_size` examples are set aside for validation: 5,000 of 60,000, and a
// twelfth of a smaller set.
constexpr int64_t ValidationSize(int64_t train_file_size) {
  return train_file_size >= 60000 ? 5000 : train_file_size / 12;
}

// Where a stream stands; saved beside a run so that a batcher can continue exactly.
struct BatcherState {
  int64_t epoch = 0;
  int64_t position = 0;  // examples drawn in this epoch
};

struct BatcherOptions {
  int64_t batch_size = 100;
  uint64_t seed = 1;  // of the shuffles; a worker's stream is seeded by its task
  bool shuffle = true;
  int64_t shard = 0;        // with shard_count > 1: this stream draws only examples i with
  int64_t shard_count = 1;  // i % shard_count == shard
};

// An endless stream of batches, reshuffled each epoch; the last batch of an epoch runs over into
// the next, so every batch is full. Not thread-safe. Same options and state, same batches.
class Batcher {
 public:
  // REQUIRES: dataset->size > 0, batch_size > 0, 0 <= shard < shard_count <= dataset->size.
  Batcher(std::shared_ptr<const Dataset> dataset, const BatcherOptions& options);

  // Draws the next batch. inputs: (batch_size, D) f32 in [0, 1]; labels: (batch_size).
  void Next(std::span<float> inputs, std::span<int32_t> labels);

  BatcherState state() const { return state_; }
  void Restore(const BatcherState& state);
  int64_t examples_per_epoch() const { return static_cast<int64_t>(order_.size()); }

 private:
  void StartEpoch();

  std::shared_ptr<const Dataset> dataset_;
  BatcherOptions options_;
  BatcherState state_;
  std::vector<uint32_t> order_;  // this epoch's permutation of the shard's examples
};

// Copies examples [begin, begin + labels.size()) in file order, scaled to [0, 1], for evaluation.
void CopyExamples(const Dataset& dataset, int64_t begin, std::span<float> inputs,
                  std::span<int32_t> labels);

}  // namespace trainer
