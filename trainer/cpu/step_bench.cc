// How fast a training step is, piece by piece, beside the matrix products alone.
//   step_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>
#include <omp.h>

#include <memory>
#include <vector>

#include "dnnl.hpp"
#include "trainer/cpu/cpu_backend.h"
#include "trainer/cpu/test_models.h"
#include "trainer/model/optimizer.h"
#include "trainer/model/presets.h"

namespace trainer {
namespace {

std::shared_ptr<const Model> PresetModel(const char* name) {
  return std::make_shared<const Model>(*Model::Create(MakePreset(name)->model));
}

// Multiplications and additions of the matrix products of one step: forward, weight gradients, and
// the input gradients of all layers but the first.
double FlopsPerStep(const Model& model, int64_t batch) {
  double products = 0.0;
  bool first = true;
  for (const Layer& layer : model.layers()) {
    if (layer.weights < 0) continue;
    double pixels = 1.0;
    for (int64_t extent : layer.output_shape) pixels *= static_cast<double>(extent);
    pixels /= static_cast<double>(layer.spec.units);
    const auto size = static_cast<double>(model.variables()[layer.weights].size);
    products += size * pixels * static_cast<double>(batch) * (first ? 2.0 : 3.0);
    first = false;
  }
  return 2.0 * products;
}

void ReportFlops(benchmark::State& state, double flops_per_step) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops_per_step * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

// Gradients and, with `update`, SGD with moving averages: the whole of a one-process step but the
// drawing of the batch.
void RunSteps(benchmark::State& state, const char* preset, ComputeDtype dtype, bool update) {
  const std::shared_ptr<const Model> model = PresetModel(preset);
  ProgramOptions options;
  options.batch_size = state.range(0);
  options.threads = static_cast<int>(state.range(1));
  options.compute_dtype = dtype;
  const auto program = *MakeCpuBackend()->Compile(model, options);
  const OwnedBatch batch = RandomBatch(*model, options.batch_size);
  std::vector<float> parameters = InitialParameters(*model);
  std::vector<float> averages = parameters;
  std::vector<float> gradients(parameters.size());
  for (auto _ : state) {
    benchmark::DoNotOptimize(program->Gradients(batch.All(*model), parameters, gradients));
    if (!update) continue;
    UpdateArgs args;
    args.gradient = gradients;
    args.old_parameters = parameters;
    args.new_parameters = parameters;
    args.old_ema = averages;
    args.new_ema = averages;
    args.learning_rate = 1e-6f;
    args.ema_decay = 0.99f;
    ApplyUpdate({}, args);
  }
  ReportFlops(state, FlopsPerStep(*model, options.batch_size));
}

void BM_MlpStep(benchmark::State& state) { RunSteps(state, "mnist-mlp", ComputeDtype::kF32, true); }
void BM_MlpStepBf16(benchmark::State& state) {
  RunSteps(state, "mnist-mlp", ComputeDtype::kBf16, true);
}
void BM_MlpGradients(benchmark::State& state) {
  RunSteps(state, "mnist-mlp", ComputeDtype::kF32, false);
}
void BM_MlpGradientsBf16(benchmark::State& state) {
  RunSteps(state, "mnist-mlp", ComputeDtype::kBf16, false);
}
void BM_DistMnistGradients(benchmark::State& state) {
  RunSteps(state, "dist-mnist", ComputeDtype::kF32, false);
}
void BM_Lenet5Gradients(benchmark::State& state) {
  RunSteps(state, "lenet5", ComputeDtype::kF32, false);
}
void BM_Lenet5GradientsBf16(benchmark::State& state) {
  RunSteps(state, "lenet5", ComputeDtype::kBf16, false);
}
void BM_LinearRegressionStep(benchmark::State& state) {
  RunSteps(state, "linear-regression", ComputeDtype::kF32, true);
}

// The library's own rate: the five products of an mnist-mlp step by dnnl_sgemm, nothing else.
void BM_MlpProductsOnly(benchmark::State& state) {
  const auto batch = state.range(0);
  const int threads_before = omp_get_max_threads();
  omp_set_num_threads(static_cast<int>(state.range(1)));
  std::vector<float> x(batch * 784, 0.1f), w1(784 * 500, 0.1f), h(batch * 500, 0.1f);
  std::vector<float> w2(500 * 10, 0.1f), y(batch * 10, 0.1f), dw1(784 * 500), dw2(5000);
  for (auto _ : state) {
    dnnl_sgemm('N', 'N', batch, 500, 784, 1, x.data(), 784, w1.data(), 500, 0, h.data(), 500);
    dnnl_sgemm('N', 'N', batch, 10, 500, 1, h.data(), 500, w2.data(), 10, 0, y.data(), 10);
    dnnl_sgemm('T', 'N', 500, 10, batch, 1, h.data(), 500, y.data(), 10, 0, dw2.data(), 10);
    dnnl_sgemm('N', 'T', batch, 500, 10, 1, y.data(), 10, w2.data(), 10, 0, h.data(), 500);
    dnnl_sgemm('T', 'N', 784, 500, batch, 1, x.data(), 784, h.data(), 500, 0, dw1.data(), 500);
    benchmark::ClobberMemory();
  }
  omp_set_num_threads(threads_before);
  ReportFlops(state, FlopsPerStep(*PresetModel("mnist-mlp"), batch));
}

void BM_SgdWithAverages(benchmark::State& state) {
  std::vector<float> gradients(397510, 1e-3f), parameters(397510, 0.1f), averages(397510, 0.1f);
  UpdateArgs args;
  args.gradient = gradients;
  args.old_parameters = parameters;
  args.new_parameters = parameters;
  args.old_ema = averages;
  args.new_ema = averages;
  args.learning_rate = 1e-6f;
  args.ema_decay = 0.99f;
  for (auto _ : state) ApplyUpdate({}, args);
}

void BatchesAndThreads(benchmark::internal::Benchmark* bench) {
  for (int64_t batch : {100, 4096}) {
    for (int64_t threads : {1, 2}) bench->Args({batch, threads});
  }
  bench->ArgNames({"batch", "threads"})->MeasureProcessCPUTime()->UseRealTime();
}
BENCHMARK(BM_MlpStep)->Apply(BatchesAndThreads);
BENCHMARK(BM_MlpStepBf16)->Apply(BatchesAndThreads);
BENCHMARK(BM_MlpGradients)->Apply(BatchesAndThreads);
BENCHMARK(BM_MlpGradientsBf16)->Apply(BatchesAndThreads);
BENCHMARK(BM_MlpProductsOnly)->Apply(BatchesAndThreads);
BENCHMARK(BM_DistMnistGradients)->Args({100, 1})->Args({100, 2})->UseRealTime();
BENCHMARK(BM_Lenet5Gradients)->Args({100, 1})->Args({100, 2})->UseRealTime();
BENCHMARK(BM_Lenet5GradientsBf16)->Args({100, 1})->Args({100, 2})->UseRealTime();
BENCHMARK(BM_LinearRegressionStep)->Args({1, 1});
BENCHMARK(BM_SgdWithAverages);

}  // namespace
}  // namespace trainer

BENCHMARK_MAIN();
