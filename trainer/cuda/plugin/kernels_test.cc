// Bodies of kernels, launched on the host with a GPU's geometry, against the CPU's kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "trainer/cpu/kernels.h"
#include "trainer/cuda/plugin/elementwise.h"
#include "trainer/cuda/plugin/launch.h"
#include "trainer/cuda/plugin/reduce.h"
#include "trainer/cuda/plugin/softmax.h"
#include "trainer/cuda/plugin/windows.h"
#include "trainer/model/random.h"

namespace trainer::cuda {
namespace {

// Around the sizes of warps and blocks, and many blocks.
const std::vector<int64_t> kSizes = {1, 2, 31, 32, 33, 255, 256, 257, 5000, 600000};

std::vector<float> Random(int64_t size, uint64_t seed = 1) {
  RandomStream random(seed, "kernels");
  std::vector<float> values(static_cast<size_t>(size));
  for (float& value : values) value = static_cast<float>(random.Normal());
  return values;
}

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b, float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

TEST(CudaKernelsTest, ActivationsAreTheCpus) {
  std::vector<float> x = Random(1000);
  x[3] = 0.0f;
  x[4] = 90.0f;
  x[5] = -90.0f;
  std::vector<float> y(x.size()), expected(x.size());
  const auto size = static_cast<int64_t>(x.size());
  HostLaunch::Each(size, ReluBody{x.data(), y.data()});
  cpu::Relu(x.data(), x.size(), expected.data());
  EXPECT_EQ(y, expected);
  HostLaunch::Each(size, SigmoidBody{x.data(), y.data()});
  cpu::Sigmoid(x.data(), x.size(), expected.data());
  ExpectNear(y, expected, 1e-6f);
  HostLaunch::Each(size, TanhBody{x.data(), y.data()});
  cpu::Tanh(x.data(), x.size(), expected.data());
  ExpectNear(y, expected, 1e-6f);
}

TEST(CudaKernelsTest, NanPassesThroughReluAndPooling) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {nan, 1, 2, 3};
  std::vector<float> y(4);
  std::vector<int32_t> winners(4);
  HostLaunch::Each(4, ReluBody{x.data(), y.data()});
  EXPECT_TRUE(std::isnan(y[0]));
  const Windows windows = {2, 2, 1, 1, 1, 2, 2, 0, 0};
  HostLaunch::Each(1, MaxPoolBody{windows, x.data(), y.data(), winners.data()});
  EXPECT_TRUE(std::isnan(y[0]));
}

TEST(CudaKernelsTest, BackwardsOfActivationsAreTheCpus) {
  const std::vector<float> y = Random(777, 1);
  const std::vector<float> g = Random(777, 2);
  std::vector<float> mine = g, expected = g;
  HostLaunch::Each(777, ReluBackwardBody{y.data(), mine.data()});
  cpu::ReluBackward(y.data(), 777, expected.data());
  EXPECT_EQ(mine, expected);
  HostLaunch::Each(777, SigmoidBackwardBody{y.data(), mine.data()});
  cpu::SigmoidBackward(y.data(), 777, expected.data());
  ExpectNear(mine, expected, 1e-6f);
  HostLaunch::Each(777, TanhBackwardBody{y.data(), mine.data()});
  cpu::TanhBackward(y.data(), 777, expected.data());
  ExpectNear(mine, expected, 1e-6f);
}

TEST(CudaKernelsTest, DropsTheSameUnitsAsTheCpu) {
  const std::vector<float> x(10000, 1.0f);
  std::vector<float> y(x.size()), expected(x.size());
  for (const uint64_t seed : {uint64_t{0}, uint64_t{77}, uint64_t{0xfedcba9876543210}}) {
    const float rate = 0.3f;
    HostLaunch::Each(10000,
                     DropoutBody{x.data(), y.data(), &seed, 5u,
                                 static_cast<uint32_t>(static_cast<double>(rate) * 4294967296.0),
                                 1.0f / (1.0f - rate)});
    cpu::Dropout(x.data(), x.size(), rate, seed + 5u, 0, expected.data());
    EXPECT_EQ(y, expected);
  }
}

TEST(CudaKernelsTest, SumsOfAnySizeAreTheCpus) {
  for (const int64_t size : kSizes) {
    const std::vector<float> w = Random(size);
    const int64_t blocks = SumBlocks(size);
    std::vector<double> partials(static_cast<size_t>(blocks));
    double total = 0.0;
    HostLaunch::Blocks(blocks, SumSquares{w.data(), size, blocks, partials.data()});
    HostLaunch::Blocks(1, SumDoubles{partials.data(), blocks, 1, &total});
    const double expected = cpu::SumOfSquares(w.data(), w.size());
    EXPECT_NEAR(total, expected, 1e-9 * expected) << size;
  }
  double total = NAN;
  HostLaunch::Blocks(1, SumDoubles{nullptr, 0, 1, &total});
  EXPECT_EQ(total, 0.0);
}

TEST(CudaKernelsTest, ColumnSumsOfAnyShapeAreTheCpus) {
  for (const int64_t rows : {1, 7, 8, 9, 300, 20000}) {
    for (const int64_t columns : {1, 10, 31, 32, 33, 100}) {
      const std::vector<float> g = Random(rows * columns);
      const ColumnSumsBody body = {g.data(), rows, columns, ColumnParts(rows), nullptr};
      std::vector<float> partials(static_cast<size_t>(body.parts * columns));
      std::vector<float> sums(static_cast<size_t>(columns)), expected(sums.size());
      ColumnSumsBody first = body;
      first.partials = partials.data();
      HostLaunch::Blocks(first.blocks(), first);
      HostLaunch::Each(columns, ColumnPartsBody{partials.data(), body.parts, columns, sums.data()});
      cpu::ColumnSums(g.data(), static_cast<size_t>(rows), sums.size(), 0, sums.size(),
                      expected.data());
      ExpectNear(sums, expected, 1e-4f * std::sqrt(static_cast<float>(rows)));
    }
  }
}

TEST(CudaKernelsTest, CrossEntropyOfAnyNumberOfClassesIsTheCpus) {
  for (const int64_t classes : {1, 2, 10, 31, 32, 33, 64, 100, 1000}) {
    for (const bool clipped : {false, true}) {
      constexpr int64_t kRows = 9;
      std::vector<float> logits = Random(kRows * classes);
      for (int64_t c = 0; c < classes; ++c) logits[static_cast<size_t>(c)] *= 40.0f;
      std::vector<int32_t> labels;
      for (int64_t row = 0; row < kRows; ++row) {
        labels.push_back(static_cast<int32_t>((row * 7 + 1) % classes));
      }
      std::vector<float> losses(kRows), gradient(logits.size()), expected(logits.size());
      std::vector<float> scratch(logits.size());
      HostLaunch::Blocks(
          kRows, SoftmaxCrossEntropyBody{logits.data(), labels.data(), classes, clipped ? 1 : 0,
                                         0.5f, losses.data(), gradient.data()});
      const double loss = cpu::SoftmaxCrossEntropy(logits.data(), labels.data(), kRows,
                                                   static_cast<size_t>(classes), clipped, 0.5f,
                                                   scratch.data(), expected.data());
      double sum = 0.0;
      for (const float value : losses) sum += value;
      EXPECT_NEAR(sum, loss, 1e-5 * std::max(1.0, loss)) << classes;
      ExpectNear(gradient, expected, 1e-6f);
    }
  }
}

// <gather(x), y> = <x, sum(y)> for all x and y says that one is the other's transpose.
TEST(CudaKernelsTest, SummingWindowsIsTheTransposeOfGatheringThem) {
  const std::vector<Windows> shapes = {{5, 6, 3, 5, 6, 3, 1, 1, 1},   // SAME
                                       {7, 7, 2, 5, 5, 3, 1, 0, 0},   // VALID
                                       {7, 6, 1, 4, 3, 3, 2, 1, 0},   // stride 2, padded unevenly
                                       {6, 6, 2, 2, 2, 2, 3, 0, 0}};  // gaps between the windows
  for (const Windows& windows : shapes) {
    constexpr int64_t kExamples = 2;
    const std::vector<float> x = Random(kExamples * windows.in_size(), 1);
    const std::vector<float> y = Random(kExamples * windows.window_elements(), 2);
    std::vector<float> gathered(y.size()), summed(x.size());
    HostLaunch::Each(static_cast<int64_t>(y.size()),
                     GatherWindowsBody{windows, x.data(), gathered.data()});
    HostLaunch::Each(static_cast<int64_t>(x.size()),
                     SumWindowsBody{windows, y.data(), summed.data()});
    double left = 0.0, right = 0.0;
    for (size_t i = 0; i < y.size(); ++i) left += static_cast<double>(gathered[i]) * y[i];
    for (size_t i = 0; i < x.size(); ++i) right += static_cast<double>(x[i]) * summed[i];
    EXPECT_NEAR(left, right, 1e-3);
  }
}

}  // namespace
}  // namespace trainer::cuda
