#include "trainer/data/dataset.h"

#include <algorithm>
#include <utility>

#include "absl/base/optimization.h"
#include "trainer/data/pixels.h"
#include "trainer/data/random.h"

namespace trainer {
namespace {

// Examples of a shuffled batch lie anywhere in a set far larger than the caches, so the lines of a
// later one are asked for while an earlier one is converted.
constexpr size_t kPrefetchDistance = 2;
constexpr int64_t kCacheLine = 64;

void Prefetch(const uint8_t* begin, int64_t size) {
  for (int64_t offset = 0; offset < size; offset += kCacheLine) __builtin_prefetch(begin + offset);
}

// `epoch`'s order of the shard's examples: Fisher and Yates's shuffle, a function of seed and epoch
// alone, so that a stream can be taken up anywhere.
void Shuffle(uint64_t seed, int64_t epoch, std::span<uint32_t> order) {
  Random random(seed, static_cast<uint64_t>(epoch));
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[random.Below(static_cast<uint32_t>(i))]);
  }
}

}  // namespace

Batcher::Batcher(std::shared_ptr<const Dataset> dataset, const BatcherOptions& options)
    : dataset_(std::move(dataset)), options_(options) {
  ABSL_ASSERT(options_.batch_size > 0 && options_.shard >= 0);
  ABSL_ASSERT(options_.shard < options_.shard_count && options_.shard_count <= dataset_->size);
  order_.resize((dataset_->size - options_.shard + options_.shard_count - 1) /
                options_.shard_count);
  StartEpoch();
}

void Batcher::StartEpoch() {
  for (size_t i = 0; i < order_.size(); ++i) {
    order_[i] = static_cast<uint32_t>(options_.shard + i * options_.shard_count);
  }
  if (options_.shuffle) Shuffle(options_.seed, state_.epoch, order_);
}

void Batcher::Restore(const BatcherState& state) {
  state_ = state;
  // A state of a smaller or larger set still means a place in this one.
  state_.position = std::clamp<int64_t>(state_.position, 0, examples_per_epoch());
  StartEpoch();
}

void Batcher::Next(std::span<float> inputs, std::span<int32_t> labels) {
  const int64_t width = dataset_->example_size;
  const uint8_t* const pixels = dataset_->pixels.data();
  for (int64_t i = 0; i < options_.batch_size; ++i) {
    if (state_.position == examples_per_epoch()) {
      ++state_.epoch;
      state_.position = 0;
      StartEpoch();
    }
    const auto position = static_cast<size_t>(state_.position++);
    if (position + kPrefetchDistance < order_.size()) {
      Prefetch(pixels + order_[position + kPrefetchDistance] * width, width);
    }
    const int64_t example = order_[position];
    ScalePixels({pixels + example * width, static_cast<size_t>(width)}, inputs.data() + i * width);
    labels[i] = dataset_->labels[example];
  }
}

void CopyExamples(const Dataset& dataset, int64_t begin, std::span<float> inputs,
                  std::span<int32_t> labels) {
  const auto count = static_cast<int64_t>(labels.size());
  ABSL_ASSERT(begin >= 0 && begin + count <= dataset.size);
  ScalePixels({dataset.pixels.data() + begin * dataset.example_size,
               static_cast<size_t>(count * dataset.example_size)},
              inputs.data());
  std::copy_n(dataset.labels.begin() + begin, count, labels.begin());
}

}  // namespace trainer
