#include "trainer/data/synthesize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "trainer/data/glyphs.h"
#include "trainer/data/random.h"

// No sine, cosine or fused multiply-add below (the build turns contraction off): their last bits
// differ from machine to machine, those of + - * / and sqrt do not.

namespace trainer {
namespace {

constexpr int kSide = 28;
constexpr int kPixels = kSide * kSide;
constexpr int kPiecesPerArc = 4;
// One row of the drawing surface, wide enough for whole vectors past the last column.
constexpr int kStride = 32;
constexpr int kLanes = 4;
constexpr float kFar = 1e6f;

// By value, which the compiler turns into vector instructions where std::min's references stop it.
float Min(float a, float b) { return a < b ? a : b; }
float Max(float a, float b) { return a > b ? a : b; }

// How one example is written; drawn anew for each. Lengths in pixels.
struct Hand {
  float scale_x, scale_y;
  float cosine, sine;  // of the rotation
  float slant;
  float center_x, center_y;
  float radius;  // half the width of the pen
  float ink;     // brightness of a stroke's middle
  float jitter;  // of each control point
  int noise;     // largest grain added to a pixel
};

Hand DrawHand(Random& random) {
  Hand hand{};
  hand.scale_x = random.Uniform(4.6f, 8.6f);
  hand.scale_y = random.Uniform(5.4f, 7.6f);
  // A rotation by 2·atan(t), without trigonometry; t = 0.16 is 18 degrees.
  const float t = random.Uniform(-0.16f, 0.16f);
  hand.cosine = (1.0f - t * t) / (1.0f + t * t);
  hand.sine = 2.0f * t / (1.0f + t * t);
  hand.slant = random.Uniform(-0.35f, 0.2f);
  hand.center_x = 13.5f + random.Uniform(-2.2f, 2.2f);
  hand.center_y = 13.5f + random.Uniform(-2.2f, 2.2f);
  hand.radius = random.Uniform(0.6f, 1.7f);
  hand.ink = random.Uniform(0.7f, 1.0f) * 255.0f;
  hand.jitter = 0.2f;
  hand.noise = static_cast<int>(random.Below(32));
  return hand;
}

Point Place(const Hand& hand, Point point, Random& random) {
  const uint64_t bits = random.Next();
  constexpr float kUnit = 0x1p-31f;  // of a signed 32-bit number: [-1, 1)
  const float jitter_x = static_cast<float>(static_cast<int32_t>(bits)) * kUnit * hand.jitter;
  const float jitter_y = static_cast<float>(static_cast<int32_t>(bits >> 32)) * kUnit * hand.jitter;
  const float y = (point.y + jitter_y) * hand.scale_y;
  const float x = (point.x + jitter_x) * hand.scale_x + hand.slant * y;
  return {hand.center_x + hand.cosine * x - hand.sine * y,
          hand.center_y + hand.sine * x + hand.cosine * y};
}

// Squared distances of the pixels' centres to the nearest stroke.
class Surface {
 public:
  Surface() { distances_.fill(kFar); }

  // Lowers the distance of every pixel within `reach` of the line from `a` to `b`.
  void Line(Point a, Point b, float reach) {
    const float dx = b.x - a.x;
    const float dy = b.y - a.y;
    const float length2 = dx * dx + dy * dy;
    const float inverse = length2 > 1e-6f ? 1.0f / length2 : 0.0f;
    const int top = Clip(Min(a.y, b.y) - reach);
    const int bottom = Clip(Max(a.y, b.y) + reach + 1.0f);
    const int left = Clip(Min(a.x, b.x) - reach);
    const int right = Clip(Max(a.x, b.x) + reach + 1.0f);
    const int width = (right - left + kLanes - 1) & ~(kLanes - 1);
    const float first_x = static_cast<float>(left) - a.x;
    for (int y = top; y < bottom; ++y) {
      const float py = static_cast<float>(y) - a.y;
      const float along_y = py * dy;
      float* row = &distances_[y * kStride + left];
      for (int i = 0; i < width; ++i) {
        const float px = first_x + static_cast<float>(i);
        const float along = Min(Max((px * dx + along_y) * inverse, 0.0f), 1.0f);
        const float ex = px - along * dx;
        const float ey = py - along * dy;
        row[i] = Min(row[i], ex * ex + ey * ey);
      }
    }
  }

  // Turns distances into ink with a soft edge one pixel wide, and adds grain.
  void Develop(const Hand& hand, Random& random, uint8_t* out) const {
    // Marsaglia's xorshift32, one a column, none of them 0.
    std::array<uint32_t, kStride> grain;
    for (int x = 0; x < kStride; x += 2) {
      const uint64_t bits = random.Next();
      grain[x] = static_cast<uint32_t>(bits) | 1u;
      grain[x + 1] = static_cast<uint32_t>(bits >> 32) | 1u;
    }
    const float edge = hand.radius + 0.5f;
    const float ink = hand.ink;
    const auto noise = static_cast<uint32_t>(hand.noise);
    for (int y = 0; y < kSide; ++y) {
      const float* row = &distances_[y * kStride];
      std::array<int32_t, kStride> values;
      for (int x = 0; x < kStride; ++x) {
        uint32_t word = grain[x];
        word ^= word << 13;
        word ^= word >> 17;
        word ^= word << 5;
        grain[x] = word;
        const float cover = Min(Max(edge - std::sqrt(row[x]), 0.0f), 1.0f) * ink;
        values[x] =
            static_cast<int32_t>(cover) + static_cast<int32_t>(((word >> 16) * noise) >> 16);
      }
      for (int x = 0; x < kSide; ++x) {
        out[y * kSide + x] = static_cast<uint8_t>(values[x] < 255 ? values[x] : 255);
      }
    }
  }

 private:
  static int Clip(float coordinate) {
    return static_cast<int>(Min(Max(coordinate, 0.0f), static_cast<float>(kSide)));
  }

  alignas(64) std::array<float, kSide * kStride> distances_;
};

void DrawStroke(const Hand& hand, Stroke stroke, Random& random, Surface& surface) {
  const float reach = hand.radius + 0.5f;
  Point start = Place(hand, stroke[0], random);
  for (size_t i = 1; i + 1 < stroke.size(); i += 2) {
    const Point control = Place(hand, stroke[i], random);
    const Point end = Place(hand, stroke[i + 1], random);
    Point from = start;
    for (int piece = 1; piece <= kPiecesPerArc; ++piece) {
      const float t = static_cast<float>(piece) / kPiecesPerArc;
      const float s = 1.0f - t;
      const Point to{s * s * start.x + 2.0f * s * t * control.x + t * t * end.x,
                     s * s * start.y + 2.0f * s * t * control.y + t * t * end.y};
      surface.Line(from, to, reach);
      from = to;
    }
    start = end;
  }
}

void DrawDigit(int digit, Random& random, uint8_t* out) {
  const std::span<const Glyph> glyphs = GlyphsOf(digit);
  const Glyph glyph = glyphs[random.Below(static_cast<uint32_t>(glyphs.size()))];
  const Hand hand = DrawHand(random);
  Surface surface;
  for (const Stroke stroke : glyph) DrawStroke(hand, stroke, random, surface);
  surface.Develop(hand, random, out);
}

#if defined(__x86_64__)
// The same code, and the same bytes, in wider vectors. No `fma` here: see above.
__attribute__((target("avx2"), flatten)) void DrawDigitAvx2(int digit, Random& random,
                                                            uint8_t* out) {
  DrawDigit(digit, random, out);
}
#endif

using DrawFunction = void (*)(int digit, Random& random, uint8_t* out);

DrawFunction FastestDraw() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return DrawDigitAvx2;
#endif
  return DrawDigit;
}

// Examples [begin, end) of the file that `file_seed` stands for.
std::shared_ptr<const Dataset> DrawExamples(uint64_t file_seed, int64_t begin, int64_t end) {
  Dataset dataset{.size = end - begin, .example_size = kPixels, .rows = kSide, .columns = kSide};
  dataset.pixels.resize(dataset.size * kPixels);
  dataset.labels.resize(dataset.size);
  const DrawFunction draw = FastestDraw();
  for (int64_t i = 0; i < dataset.size; ++i) {
    Random random(file_seed, static_cast<uint64_t>(begin + i));
    const uint32_t digit = random.Below(10);
    dataset.labels[i] = static_cast<uint8_t>(digit);
    draw(static_cast<int>(digit), random, dataset.pixels.data() + i * kPixels);
  }
  return std::make_shared<const Dataset>(std::move(dataset));
}

}  // namespace

Datasets SynthesizeDigits(const SynthesizeOptions& options) {
  uint64_t state = options.seed;
  const uint64_t train_seed = SplitMix64(state);
  const uint64_t test_seed = SplitMix64(state);
  const int64_t validation_size = ValidationSize(options.train_size);
  Datasets datasets;
  if (options.parts.validation) datasets.validation = DrawExamples(train_seed, 0, validation_size);
  if (options.parts.train) {
    datasets.train = DrawExamples(train_seed, validation_size, options.train_size);
  }
  if (options.parts.test) datasets.test = DrawExamples(test_seed, 0, options.test_size);
  return datasets;
}

}  // namespace trainer
