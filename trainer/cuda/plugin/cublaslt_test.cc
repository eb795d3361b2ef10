// How products are asked of cuBLASLt (order, transposes, leading dimensions, epilogues, alignment),
// with one on the host in its place.
#include "trainer/cuda/plugin/cublaslt.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trainer::cuda {
namespace {

// Values that come out exactly whatever the order of additions; some start off an alignment of 16.
std::vector<float> Values(int64_t size, int seed) {
  std::vector<float> values(static_cast<size_t>(size) + 1);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((static_cast<int>(i) * 7 + seed) % 13 - 6);
  }
  return values;
}

// Multiplies through cuBLASLt and on the host, `times` times into the same memory.
void ExpectSame(Multiplier& multiplier, Product product, int64_t offset, int times) {
  const std::vector<float> a = Values(product.m * product.k, 1);
  const std::vector<float> b = Values(product.k * product.n, 2);
  const std::vector<float> bias = Values(product.n, 3);
  std::vector<float> c = Values(product.m * product.n, 4);
  std::vector<float> expected = c;
  const bool with_bias = product.bias != nullptr;
  product.a = a.data() + offset;
  product.b = b.data() + offset;
  if (with_bias) product.bias = bias.data() + offset;
  Failure failure;
  for (int i = 0; i < times; ++i) {
    product.c = expected.data() + offset;
    MultiplyOnHost(product);
    product.c = c.data() + offset;
    multiplier.Multiply(product, nullptr, &failure);
  }
  ASSERT_TRUE(failure.ok()) << failure.text;
  EXPECT_EQ(c, expected);
}

class CublasLtTest : public testing::Test {
 protected:
  Failure failure_;
  Multiplier multiplier_{false, nullptr, 0, &failure_};
};

TEST_F(CublasLtTest, TheStandInIsLoaded) { ASSERT_TRUE(failure_.ok()) << failure_.text; }

TEST_F(CublasLtTest, EveryKindOfProductIsTheHosts) {
  const float some_bias = 0.0f;
  for (int flags = 0; flags < 32; ++flags) {
    for (const auto& [m, n, k] :
         {std::tuple{1, 1, 1}, std::tuple{3, 5, 7}, std::tuple{8, 2, 4}, std::tuple{2, 9, 1}}) {
      for (const int64_t offset : {0, 1}) {
        SCOPED_TRACE(std::to_string(flags) + ": " + std::to_string(m) + "x" + std::to_string(n));
        const Product product = {.m = m,
                                 .n = n,
                                 .k = k,
                                 .a_transposed = (flags & 1) != 0,
                                 .b_transposed = (flags & 2) != 0,
                                 .accumulate = (flags & 4) != 0,
                                 .bias = (flags & 8) != 0 ? &some_bias : nullptr,
                                 .relu = (flags & 16) != 0};
        ExpectSame(multiplier_, product, offset, 2);
      }
    }
  }
}

TEST_F(CublasLtTest, AnErrorStaysAndStopsWhatFollows) {
  Failure failure;
  failure.Set(kTrainerCudaFailed, "before");
  multiplier_.Multiply({.m = 1, .n = 1, .k = 1}, nullptr, &failure);
  EXPECT_EQ(failure.text, "before");
}

}  // namespace
}  // namespace trainer::cuda
