// Our own loops against the C library, element by element.
#include "trainer/cpu/kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace trainer::cpu {
namespace {

std::vector<float> Numbers() {
  std::vector<float> numbers = {0.0f, -0.0f, 1e-30f, -1e-30f, 100.0f, -100.0f, 1e30f, -1e30f};
  for (float x = -20.0f; x < 20.0f; x += 0.0137f) numbers.push_back(x);
  for (float x = -0.2f; x < 0.2f; x += 0.00137f) numbers.push_back(x);
  return numbers;
}

TEST(KernelsTest, SigmoidAndTanhEqualTheLibrarysToAFewUlp) {
  const std::vector<float> x = Numbers();
  std::vector<float> sigmoid(x.size());
  std::vector<float> tanh(x.size());
  Sigmoid(x.data(), x.size(), sigmoid.data());
  Tanh(x.data(), x.size(), tanh.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double s = 1.0 / (1.0 + std::exp(-static_cast<double>(x[i])));
    const double t = std::tanh(static_cast<double>(x[i]));
    EXPECT_NEAR(sigmoid[i], s, 1e-6 * s + 1e-37) << x[i];
    EXPECT_NEAR(tanh[i], t, 2e-6 * std::abs(t) + 1e-37) << x[i];
  }
}

TEST(KernelsTest, NotANumberStaysVisible) {
  std::vector<float> x(40, 1.0f);
  x[7] = NAN;
  std::vector<float> y(40);
  Relu(x.data(), x.size(), y.data());
  EXPECT_TRUE(std::isnan(y[7]));
  Sigmoid(x.data(), x.size(), y.data());
  EXPECT_TRUE(std::isnan(y[7]));
  Tanh(x.data(), x.size(), y.data());
  EXPECT_TRUE(std::isnan(y[7]));
  const std::vector<int32_t> labels = {0, 1, 2, 3};
  std::vector<float> scratch(40);
  for (const bool clipped : {false, true}) {
    EXPECT_TRUE(std::isnan(SoftmaxCrossEntropy(x.data(), labels.data(), 4, 10, clipped, 1.0f,
                                               scratch.data(), nullptr)));
  }
}

TEST(KernelsTest, Bf16IsRoundedToNearestEven) {
  const std::vector<float> from = {1.0f,
                                   -2.5f,
                                   1.00390625f,
                                   1.01171875f,
                                   3.1415927f,
                                   0.0f,
                                   std::numeric_limits<float>::infinity(),
                                   NAN};
  std::vector<uint16_t> to(from.size());
  ToBf16(from.data(), from.size(), to.data());
  // 1 + 2^-8 lies between 1 and 1 + 2^-7: to even, 1. 1 + 3·2^-8: to even, 1 + 2^-6.
  EXPECT_EQ(
      to, (std::vector<uint16_t>{0x3f80, 0xc020, 0x3f80, 0x3f82, 0x4049, 0x0000, 0x7f80, 0x7fc0}));
}

TEST(KernelsTest, SoftmaxTakesHugeLogits) {
  const std::vector<float> logits = {1e30f, -1e30f, 1000.0f, 1001.0f};
  const std::vector<int32_t> labels = {0, 1};
  std::vector<float> scratch(4);
  std::vector<float> gradient(4);
  const double loss = SoftmaxCrossEntropy(logits.data(), labels.data(), 2, 2, false, 1.0f,
                                          scratch.data(), gradient.data());
  EXPECT_NEAR(loss, std::log1p(std::exp(-1.0)), 1e-6);
  EXPECT_EQ(gradient[0], 0.0f);
  EXPECT_NEAR(gradient[3], -1.0 / (1.0 + std::exp(1.0)), 1e-6);
}

TEST(KernelsTest, DropoutDropsTheAskedShareAndKeepsTheMean) {
  std::vector<float> x(200000, 1.0f);
  std::vector<float> y(x.size());
  for (const float rate : {0.1f, 0.5f, 0.9f}) {
    Dropout(x.data(), x.size(), rate, 7, 0, y.data());
    double sum = 0.0;
    size_t dropped = 0;
    for (const float value : y) {
      sum += value;
      dropped += value == 0.0f;
    }
    EXPECT_NEAR(static_cast<double>(dropped) / y.size(), rate, 0.005);
    EXPECT_NEAR(sum / y.size(), 1.0, 0.03);
  }
  Dropout(x.data(), x.size(), 0.0f, 7, 0, y.data());
  EXPECT_EQ(x, y);
}

TEST(KernelsTest, DropoutOfAPartEqualsThePartOfTheWhole) {
  std::vector<float> x(100, 1.0f);
  std::vector<float> whole(100);
  std::vector<float> part(40);
  Dropout(x.data(), 100, 0.5f, 3, 0, whole.data());
  Dropout(x.data() + 60, 40, 0.5f, 3, 60, part.data());
  EXPECT_EQ(part, std::vector<float>(whole.begin() + 60, whole.end()));
}

TEST(KernelsTest, L2AddsItsGradientAndReturnsTheSquares) {
  for (const size_t size : {1u, 31u, 32u, 5000u, 9001u}) {
    std::vector<float> w(size);
    for (size_t i = 0; i < size; ++i) w[i] = static_cast<float>(i % 7) - 3.0f;
    std::vector<float> g(size, 1.0f);
    double squares = 0.0;
    for (const float value : w) squares += value * value;
    EXPECT_EQ(AddL2(0.5f, w.data(), size, g.data()), squares);
    for (size_t i = 0; i < size; ++i) ASSERT_EQ(g[i], 1.0f + 0.5f * w[i]);
  }
}

}  // namespace
}  // namespace trainer::cpu
