#include "trainer/data/synthesize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "trainer/data/crc32c.h"
#include "trainer/data/glyphs.h"
#include "trainer/data/idx.h"
#include "trainer/data/test_util.h"

namespace trainer {
namespace {

TEST(SynthesizeTest, DrawsTheSizesOfMnist) {
  const Datasets digits = SynthesizeDigits({});
  EXPECT_EQ(digits.train->size, 55000);
  EXPECT_EQ(digits.validation->size, 5000);
  EXPECT_EQ(digits.test->size, 10000);
  EXPECT_EQ(digits.train->rows, 28);
  EXPECT_EQ(digits.train->columns, 28);
  EXPECT_EQ(digits.train->pixels.size(), 55000u * 784);
  std::array<int64_t, 10> counts{};
  for (const uint8_t label : digits.train->labels) ++counts.at(label);
  for (const int64_t count : counts) EXPECT_NEAR(count, 5500, 400);
}

// Pins the drawings: the sum must come out on every machine, compiler and vector width.
TEST(SynthesizeTest, DrawsTheSameBytesEverywhere) {
  const Datasets digits = SynthesizeDigits({.train_size = 1200, .test_size = 100, .seed = 1});
  EXPECT_EQ(Crc32c(digits.train->pixels), 0x65f63092u);
  EXPECT_EQ(Crc32c(digits.test->pixels), 0x0fac058fu);
}

TEST(SynthesizeTest, PartsAreTheSameAloneAndTogether) {
  const SynthesizeOptions all{.train_size = 600, .test_size = 50, .seed = 9};
  SynthesizeOptions train_only = all;
  train_only.parts = {.validation = false, .test = false};
  const Datasets whole = SynthesizeDigits(all);
  const Datasets train = SynthesizeDigits(train_only);
  EXPECT_EQ(train.validation, nullptr);
  EXPECT_EQ(train.test, nullptr);
  EXPECT_EQ(train.train->pixels, whole.train->pixels);
  EXPECT_EQ(train.train->labels, whole.train->labels);
}

TEST(SynthesizeTest, SeedsAndFilesDiffer) {
  const Datasets one = SynthesizeDigits({.train_size = 120, .test_size = 110, .seed = 1});
  const Datasets two = SynthesizeDigits({.train_size = 120, .test_size = 110, .seed = 2});
  EXPECT_NE(one.train->pixels, two.train->pixels);
  EXPECT_NE(one.train->pixels, one.test->pixels);
}

TEST(SynthesizeTest, EveryDigitIsDrawnInsideTheImageWithStrokesAndBackground) {
  const Datasets digits = SynthesizeDigits({.train_size = 0, .test_size = 2000});
  for (int64_t i = 0; i < digits.test->size; ++i) {
    const auto begin = digits.test->pixels.begin() + i * 784;
    EXPECT_GT(std::count_if(begin, begin + 784, [](uint8_t p) { return p > 150; }), 8) << i;
    EXPECT_GT(std::count_if(begin, begin + 784, [](uint8_t p) { return p < 40; }), 392) << i;
  }
}

// One step of learning that needs no trainer: the nearest class mean. Far better than chance, so
// the labels fit; far from perfect, so that there is something left to learn.
TEST(SynthesizeTest, ClassMeansTellDigitsApartButNotAll) {
  const Datasets digits = SynthesizeDigits({.train_size = 6000, .test_size = 1000});
  const Dataset& train = *digits.train;
  std::vector<double> means(10 * 784);
  std::array<double, 10> counts{};
  for (int64_t i = 0; i < train.size; ++i) {
    const int label = train.labels[i];
    counts[label] += 1;
    for (int p = 0; p < 784; ++p) means[label * 784 + p] += train.pixels[i * 784 + p];
  }
  for (int p = 0; p < 7840; ++p) means[p] /= counts[p / 784];
  int correct = 0;
  for (int64_t i = 0; i < digits.test->size; ++i) {
    std::array<double, 10> distances{};
    for (int p = 0; p < 7840; ++p) {
      const double difference = digits.test->pixels[i * 784 + p % 784] - means[p];
      distances[p / 784] += difference * difference;
    }
    const auto nearest = std::ranges::min_element(distances) - distances.begin();
    correct += nearest == digits.test->labels[i] ? 1 : 0;
  }
  EXPECT_GT(correct, 550);
  EXPECT_LT(correct, 900);
}

TEST(SynthesizeTest, ComesBackFromIdxFilesAsItWas) {
  TempFolder folder;
  const Datasets digits = SynthesizeDigits({.train_size = 1200, .test_size = 100});
  ASSERT_TRUE(WriteIdxFolder(folder.path(), digits).ok());
  const auto loaded = LoadIdxFolder(folder.path(), {});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->train->pixels, digits.train->pixels);
  EXPECT_EQ(loaded->validation->labels, digits.validation->labels);
  EXPECT_EQ(loaded->test->pixels, digits.test->pixels);
}

TEST(GlyphsTest, EveryStrokeIsAChainOfArcs) {
  for (int digit = 0; digit < 10; ++digit) {
    EXPECT_FALSE(GlyphsOf(digit).empty());
    for (const Glyph glyph : GlyphsOf(digit)) {
      for (const Stroke stroke : glyph) {
        EXPECT_EQ(stroke.size() % 2, 1u) << digit;
        EXPECT_GE(stroke.size(), 3u) << digit;
      }
    }
  }
}

}  // namespace
}  // namespace trainer
