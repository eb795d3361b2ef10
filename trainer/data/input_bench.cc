// Microbenchmarks of the input pipeline: a batch of 100 from memory and from TFRecord files,
// drawing the digits, CRCs, and loading the real set where MNIST_DIR names its folder.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "trainer/data/crc32c.h"
#include "trainer/data/dataset.h"
#include "trainer/data/idx.h"
#include "trainer/data/image_example.h"
#include "trainer/data/record_stream.h"
#include "trainer/data/synthesize.h"

namespace trainer {
namespace {

constexpr int64_t kBatchSize = 100;
constexpr SynthesizeOptions kTrainOnly{.parts = {.validation = false, .test = false}};

void BM_Batch(benchmark::State& state) {
  Batcher batcher(SynthesizeDigits(kTrainOnly).train, {.batch_size = kBatchSize});
  std::vector<float> inputs(kBatchSize * 784);
  std::vector<int32_t> labels(kBatchSize);
  for (auto _ : state) {
    batcher.Next(inputs, labels);
    benchmark::DoNotOptimize(inputs.data());
  }
  state.SetItemsProcessed(state.iterations() * kBatchSize);
}
BENCHMARK(BM_Batch)->Unit(benchmark::kMicrosecond);

void BM_RecordBatch(benchmark::State& state) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("input-bench-" + std::to_string(state.range(0))))
          .string();
  SynthesizeOptions options = kTrainOnly;
  options.train_size = 24000;
  auto files = WriteImageRecords(*SynthesizeDigits(options).train, folder, "train", 4);
  if (!files.ok()) return state.SkipWithError("cannot write the records");
  {
    auto stream = RecordStream::Open({.files = *files,
                                      .batcher = {.batch_size = kBatchSize},
                                      .reader_threads = static_cast<int>(state.range(0))});
    std::vector<float> inputs(kBatchSize * 784);
    std::vector<int32_t> labels(kBatchSize);
    for (auto _ : state) {
      if (!(*stream)->Next(inputs, labels).ok()) return state.SkipWithError("cannot read");
    }
  }
  state.SetItemsProcessed(state.iterations() * kBatchSize);
  std::filesystem::remove_all(folder);
}
BENCHMARK(BM_RecordBatch)
    ->Arg(1)
    ->Arg(2)
    ->Unit(benchmark::kMicrosecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

void BM_SynthesizeTrainingSet(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(SynthesizeDigits(kTrainOnly));
}
BENCHMARK(BM_SynthesizeTrainingSet)->Unit(benchmark::kMillisecond);

void BM_LoadTrainingSet(benchmark::State& state) {
  const char* folder = std::getenv("MNIST_DIR");
  if (folder == nullptr) return state.SkipWithError("set MNIST_DIR to a folder of idx files");
  for (auto _ : state) {
    if (!LoadIdxFolder(folder, {.validation = false, .test = false}).ok()) {
      return state.SkipWithError("cannot load the files in MNIST_DIR");
    }
  }
}
BENCHMARK(BM_LoadTrainingSet)->Unit(benchmark::kMillisecond);

void BM_Crc32c(benchmark::State& state) {
  const std::vector<uint8_t> bytes(1 << 20, 7);
  for (auto _ : state) benchmark::DoNotOptimize(Crc32c(bytes));
  state.SetBytesProcessed(state.iterations() * (1 << 20));
}
BENCHMARK(BM_Crc32c)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace trainer
