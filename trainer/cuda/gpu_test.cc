// The plug-in on a real GPU against the CPU backend. Where TRAINYARD_CUDA_PLUGIN names no plug-in,
// or it finds no GPU, every test says SKIPPED and why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "trainer/cuda/cuda_backend.h"
#include "trainer/cuda/test_same_as_cpu.h"
#include "trainer/model/towers.h"

namespace trainer {
namespace {

// f32 products in another order, on sums of up to 100,000 terms.
constexpr float kTolerance = 1e-4f;
// TF32 keeps 10 bits behind the point.
constexpr float kTf32Tolerance = 1e-2f;

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* const named = std::getenv("TRAINYARD_CUDA_PLUGIN");
    const std::string path = cuda::FindPlugin(named == nullptr ? "" : named);
    if (path.empty()) {
      GTEST_SKIP() << "no GPU plug-in: TRAINYARD_CUDA_PLUGIN names none and none lies beside";
    }
    const auto plugin = cuda::Plugin::Load(path);
    ASSERT_TRUE(plugin.ok()) << plugin.status();
    const absl::StatusOr<int> count = (*plugin)->DeviceCount();
    if (!count.ok()) GTEST_SKIP() << "no GPU: " << count.status().message();
    plugin_ = *plugin;
    device_count_ = *count;
  }

  std::unique_ptr<Backend> Make(const CudaBackendOptions& options = {.devices = {0},
                                                                     .allow_growth = true}) const {
    return MakeCudaBackend(plugin_, options);
  }

  std::shared_ptr<const cuda::Plugin> plugin_;
  int device_count_ = 0;
};

TEST_F(GpuTest, EveryDeviceAdds) {
  for (int i = 0; i < device_count_; ++i) {
    EXPECT_TRUE(plugin_->CheckAdd(i).ok()) << plugin_->CheckAdd(i);
    EXPECT_GT(plugin_->Describe(i)->memory_total_bytes, 0);
  }
}

TEST_F(GpuTest, EveryLayerLossAndOptionGivesWhatTheCpuGives) {
  const auto backend = Make();
  for (const ModelCase& c : SmallCases()) ExpectSameAsCpu(*backend, c, kTolerance);
}

TEST_F(GpuTest, ThePresetsGiveWhatTheCpuGives) {
  const auto backend = Make();
  for (const char* preset :
       {"mnist-mlp", "dist-mnist", "sigmoid-mnist", "linear-regression", "lenet5"}) {
    ExpectSameAsCpu(*backend, PresetCase(preset, 100), kTolerance);
  }
  ExpectSameAsCpu(*backend, PresetCase("mnist-mlp", 4096), kTolerance);
}

TEST_F(GpuTest, Tf32IsCloseToF32) {
  const auto backend = Make({.devices = {0}, .allow_growth = true, .allow_tf32 = true});
  ExpectSameAsCpu(*backend, PresetCase("mnist-mlp", 100), kTf32Tolerance);
}

TEST_F(GpuTest, LossesAgreeWithTheCpuOverAHundredSteps) {
  const auto backend = Make();
  const auto cpu = MakeCpuBackend();
  const ModelCase c = PresetCase("mnist-mlp", 100);
  const std::vector<float> expected = LossesOf(*cpu, c, 100, 0.01f);
  const std::vector<float> losses = LossesOf(*backend, c, 100, 0.01f);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(losses[i], expected[i], 1e-4f * expected[i]) << i;
  }
}

TEST_F(GpuTest, UpdatesOnTheDeviceAreTheCpus) {
  ExpectSameUpdatesAsCpu(plugin_, PresetCase("dist-mnist", 100), 20, kTf32Tolerance / 10);
}

TEST_F(GpuTest, TheSameStepGivesTheSameBits) {
  const auto backend = Make();
  const ModelCase c = PresetCase("lenet5", 32);
  const auto program = backend->Compile(c.model, {.batch_size = c.batch});
  ASSERT_TRUE(program.ok()) << program.status();
  const OwnedBatch data = RandomBatch(*c.model, c.batch);
  const std::vector<float> parameters = InitialParameters(*c.model);
  const Differentiated first = RunStep(**program, data.All(*c.model), parameters);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(RunStep(**program, data.All(*c.model), parameters).gradients, first.gradients);
  }
}

TEST_F(GpuTest, TowersOnOneGpuEqualOneLargeBatch) {
  const auto backend = Make();
  const ModelCase c = PresetCase("mnist-mlp", 100);
  const auto towers = CompileTowers(*backend, c.model, {.batch_size = 50}, 2);
  const auto whole = backend->Compile(c.model, {.batch_size = 100});
  ASSERT_TRUE(towers.ok() && whole.ok());
  const OwnedBatch data = RandomBatch(*c.model, 100);
  const std::vector<float> parameters = InitialParameters(*c.model);
  const Differentiated expected = RunStep(**whole, data.All(*c.model), parameters);
  const Differentiated result = RunStep(**towers, data.All(*c.model), parameters);
  ExpectClose(result.gradients, expected.gradients, kTolerance, "gradients");
}

TEST_F(GpuTest, MoreMemoryThanTheShareOfThisProcessIsAClearError) {
  const auto backend = Make({.devices = {0}, .memory_fraction = 0.01, .allow_growth = true});
  const auto program =
      backend->Compile(PresetCase("mnist-mlp", 1).model, {.batch_size = 1'000'000});
  EXPECT_EQ(program.status().code(), absl::StatusCode::kResourceExhausted) << program.status();
}

}  // namespace
}  // namespace trainer
