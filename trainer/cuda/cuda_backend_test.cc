// Whole steps through the plug-in's interface, on GPUs that are none, against the CPU backend.
#include "trainer/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/exit_codes.h"
#include "trainer/cuda/test_same_as_cpu.h"
#include "trainer/model/towers.h"

namespace trainer {
namespace {

using testing::HasSubstr;

// Loops in another order, sums in double: what is left is f32's rounding.
constexpr float kTolerance = 2e-5f;

std::unique_ptr<Backend> FakeGpus(const CudaBackendOptions& options = {.devices = {0, 1}}) {
  const auto plugin = cuda::Plugin::Load(FAKE_CUDA_PLUGIN);
  EXPECT_TRUE(plugin.ok()) << plugin.status();
  return MakeCudaBackend(*plugin, options);
}

TEST(CudaBackendTest, EveryLayerLossAndOptionGivesWhatTheCpuGives) {
  const auto backend = FakeGpus();
  for (const ModelCase& c : SmallCases()) ExpectSameAsCpu(*backend, c, kTolerance);
}

TEST(CudaBackendTest, ThePresetsGiveWhatTheCpuGives) {
  const auto backend = FakeGpus();
  for (const char* preset : {"mnist-mlp", "dist-mnist", "sigmoid-mnist", "linear-regression"}) {
    ExpectSameAsCpu(*backend, PresetCase(preset, 3), kTolerance);
  }
}

TEST(CudaBackendTest, LosesNothingOverAHundredSteps) {
  const auto backend = FakeGpus();
  const auto cpu = MakeCpuBackend();
  ModelCase c = MakeCase("two layers", {20},
                         {DenseLayer("a", 30), PlainLayer(LayerKind::kRelu), DenseLayer("b", 4)},
                         LossKind::kSoftmaxCrossEntropy, LossReduction::kMean, 0.001f);
  const std::vector<float> expected = LossesOf(*cpu, c, 100, 0.1f);
  const std::vector<float> losses = LossesOf(*backend, c, 100, 0.1f);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(losses[i], expected[i], 1e-4f * expected[i]) << i;
  }
}

TEST(CudaBackendTest, TowersOnTwoGpusEqualOneLargeBatch) {
  const auto backend = FakeGpus();
  const ModelCase c = SmallCases()[2];
  const auto towers = CompileTowers(*backend, c.model, {.batch_size = 5}, 2);
  const auto whole = backend->Compile(c.model, {.batch_size = 10});
  ASSERT_TRUE(towers.ok() && whole.ok());
  const OwnedBatch data = RandomBatch(*c.model, 10);
  const std::vector<float> parameters = InitialParameters(*c.model);
  const Differentiated expected = RunStep(**whole, data.All(*c.model), parameters);
  const Differentiated result = RunStep(**towers, data.All(*c.model), parameters);
  EXPECT_NEAR(result.loss, expected.loss, 1e-5f);
  ExpectClose(result.gradients, expected.gradients, kTolerance, "gradients");
}

TEST(ResidentProgramTest, UpdatesOnTheDeviceAreTheCpus) {
  const auto plugin = cuda::Plugin::Load(FAKE_CUDA_PLUGIN);
  ASSERT_TRUE(plugin.ok());
  ExpectSameUpdatesAsCpu(*plugin, SmallCases()[2], 20, 1e-4f);
}

TEST(ResidentProgramTest, RefusesAStateOfAnotherShapeAndBatchesThatAreTooLarge) {
  const auto plugin = cuda::Plugin::Load(FAKE_CUDA_PLUGIN);
  ASSERT_TRUE(plugin.ok());
  const ModelCase c = SmallCases()[0];
  const auto program = MakeResidentProgram(
      *plugin, c.model, {.batch_size = 2, .optimizer = {.kind = OptimizerKind::kAdam}});
  ASSERT_TRUE(program.ok());
  const std::vector<float> parameters = InitialParameters(*c.model);
  EXPECT_EQ(base::ExitCodeFor((*program)->Load({.parameters = parameters})), base::kExitUsage);
  EXPECT_TRUE((*program)->Load({.parameters = parameters, .slots = {parameters, parameters}}).ok());
  const OwnedBatch data = RandomBatch(*c.model, 3);
  EXPECT_EQ(base::ExitCodeFor((*program)->Train(data.All(*c.model), 0.1f, 1, 0.0f).status()),
            base::kExitUsage);
}

TEST(CudaBackendTest, MoreMemoryThanTheShareOfThisProcessIsAClearError) {
  const auto backend = FakeGpus({.devices = {0}, .memory_fraction = 0.01});
  const auto program = backend->Compile(PresetCase("mnist-mlp", 1).model, {.batch_size = 1000});
  EXPECT_EQ(program.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(program.status().message(),
              testing::AllOf(HasSubstr("this process may use 2.6 MiB"),
                             HasSubstr("--per_process_gpu_memory_fraction")));
}

TEST(CudaBackendTest, MemoryComesBackWithThePrograms) {
  const auto backend = FakeGpus({.devices = {0}, .memory_fraction = 0.1, .allow_growth = true});
  const ModelCase c = PresetCase("mnist-mlp", 100);
  for (int i = 0; i < 40; ++i) {
    const auto program = backend->Compile(c.model, {.batch_size = c.batch});
    ASSERT_TRUE(program.ok()) << i << ": " << program.status();
  }
}

TEST(CudaBackendTest, RefusesWhatTheCpuRefuses) {
  const auto backend = FakeGpus();
  const ModelCase c = SmallCases()[0];
  const auto program = backend->Compile(c.model, {.batch_size = 4});
  ASSERT_TRUE(program.ok());
  const std::vector<float> parameters = InitialParameters(*c.model);
  std::vector<float> gradients(parameters.size());
  OwnedBatch data = RandomBatch(*c.model, 5);
  EXPECT_EQ(
      base::ExitCodeFor((*program)->Gradients(data.All(*c.model), parameters, gradients).status()),
      base::kExitUsage);
  data.labels[0] = 5;
  EXPECT_EQ(base::ExitCodeFor(
                (*program)->Gradients(data.Part(*c.model, 0, 4), parameters, gradients).status()),
            base::kExitData);
  data.labels[0] = 0;
  data.inputs[0] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(base::ExitCodeFor(
                (*program)->Gradients(data.Part(*c.model, 0, 4), parameters, gradients).status()),
            base::kExitNumeric);
  EXPECT_EQ(base::ExitCodeFor(backend->Compile(c.model, {.device = "/cpu:0"}).status()),
            base::kExitUsage);
  EXPECT_EQ(base::ExitCodeFor(backend->Compile(c.model, {.batch_size = 0}).status()),
            base::kExitUsage);
}

TEST(CudaBackendTest, Bf16IsF32UntilItIsThere) {
  const auto backend = FakeGpus();
  const ModelCase c = SmallCases()[1];
  const auto plain = backend->Compile(c.model, {.batch_size = c.batch});
  const auto bf16 =
      backend->Compile(c.model, {.batch_size = c.batch, .compute_dtype = ComputeDtype::kBf16});
  ASSERT_TRUE(plain.ok() && bf16.ok());
  const OwnedBatch data = RandomBatch(*c.model, c.batch);
  const std::vector<float> parameters = InitialParameters(*c.model);
  EXPECT_EQ(RunStep(**plain, data.All(*c.model), parameters).gradients,
            RunStep(**bf16, data.All(*c.model), parameters).gradients);
}

}  // namespace
}  // namespace trainer
