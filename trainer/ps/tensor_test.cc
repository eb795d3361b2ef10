#include "trainer/ps/tensor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainer {
namespace {

float RoundTrip(float value) {
  uint16_t half = 0;
  ToBf16({&value, 1}, {&half, 1});
  float back = 0;
  FromBf16({&half, 1}, {&back, 1});
  return back;
}

TEST(Bf16, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(RoundTrip(1.0f), 1.0f);
  EXPECT_EQ(RoundTrip(-0.0f), -0.0f);
  EXPECT_EQ(RoundTrip(257.0f), 256.0f);  // a tie: 256 is even
  EXPECT_EQ(RoundTrip(259.0f), 260.0f);  // a tie: 260 is even
  EXPECT_EQ(RoundTrip(257.5f), 258.0f);
  EXPECT_EQ(RoundTrip(256.9f), 256.0f);
}

TEST(Bf16, KeepsInfinityAndNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(RoundTrip(infinity), infinity);
  EXPECT_EQ(RoundTrip(-infinity), -infinity);
  EXPECT_EQ(RoundTrip(std::numeric_limits<float>::max()), infinity);
  EXPECT_TRUE(std::isnan(RoundTrip(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(RoundTrip(std::bit_cast<float>(0x7f800001u))));  // not to infinity
}

// However a message was cut up on its way, its elements read the same.
TEST(BytesSource, ReadsElementsThatLieAcrossRunsAtAnyAlignment) {
  std::mt19937 random(1);
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    std::vector<float> expected(50'000);
    std::iota(expected.begin(), expected.end(), 0.0f);
    for (float& value : expected) value = RoundTrip(value);
    std::vector<std::byte> bytes(expected.size() * ElementSize(type) + 1);
    std::byte* const data = bytes.data() + 1;  // unaligned on purpose
    if (type == ElementType::kF32) {
      std::memcpy(data, expected.data(), expected.size() * 4);
    } else {
      std::vector<uint16_t> halves(expected.size());
      ToBf16(expected, halves);
      std::memcpy(data, halves.data(), halves.size() * 2);
    }
    for (const size_t longest : {size_t{3}, size_t{1000}, bytes.size()}) {
      std::vector<BytesSource::Bytes> runs;
      for (size_t at = 0; at < bytes.size() - 1;) {
        const size_t n = std::min(1 + random() % longest, bytes.size() - 1 - at);
        runs.emplace_back(data + at, n);
        at += n;
      }
      const BytesSource source(runs, type);
      ASSERT_EQ(source.size(), static_cast<int64_t>(expected.size()));
      std::vector<float> read(expected.size());
      CopyTo(source, read);
      EXPECT_EQ(read, expected);
      std::vector<float> chunks;
      ForEachChunk(source, [&](int64_t offset, std::span<const float> chunk) {
        EXPECT_EQ(offset, static_cast<int64_t>(chunks.size()));
        chunks.insert(chunks.end(), chunk.begin(), chunk.end());
      });
      EXPECT_EQ(chunks, expected);
    }
  }
}

TEST(BytesSource, ViewsAlignedElementsInPlace) {
  const std::vector<float> values = {1, 2, 3, 4};
  const BytesSource source({std::as_bytes(std::span(values))}, ElementType::kF32);
  float scratch[2];
  EXPECT_EQ(source.Read(1, scratch).data(), values.data() + 1);
}

TEST(BytesSource, MayBeEmpty) {
  const BytesSource source({}, ElementType::kF32);
  EXPECT_EQ(source.size(), 0);
  CopyTo(source, {});
}

TEST(BufferPool, ReusesWhatReadersLetGoAndNeverWhatTheyHold) {
  BufferPool pool(8);
  std::shared_ptr<FloatBuffer> first = pool.Take();
  const float* const address = first->span().data();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % 64, 0u);
  std::shared_ptr<FloatBuffer> second = pool.Take();
  EXPECT_NE(second->span().data(), address);
  first.reset();
  EXPECT_EQ(pool.Take()->span().data(), address);
}

TEST(BufferPool, MayGoBeforeItsBuffers) {
  std::shared_ptr<FloatBuffer> buffer;
  {
    BufferPool pool(4);
    buffer = pool.Take();
  }
  buffer->span()[3] = 1.0f;
  EXPECT_EQ(buffer->span()[3], 1.0f);
}

}  // namespace
}  // namespace trainer
