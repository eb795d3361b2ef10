// Plain loops that the compiler vectorises, compiled once for each level of x86-64.
#include "trainer/cpu/kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "trainer/model/multiversion.h"

namespace trainer::cpu {
namespace {

constexpr float kClip = 1e-10f;

// Multiplies and xor-shifts that spread every input bit over all output bits (MurmurHash3's 32-bit
// finaliser).
[[gnu::always_inline]] inline uint32_t Hash32(uint32_t x) {
  x ^= x >> 16;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  return x ^ (x >> 16);
}

// e^x to about 2 ulp on [-87, 88], clamped outside: x = n·ln 2 + r with |r| <= ln 2 / 2, e^r by its
// Taylor series to the seventh degree, 2^n by the exponent's bits. NaN gives NaN.
[[gnu::always_inline]] inline float Exp(float x) {
  constexpr float kLog2e = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  const float clamped = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);
  // Adding and taking away 1.5·2^23 rounds to the nearest integer.
  constexpr float kRound = 12582912.0f;
  const float shifted = clamped * kLog2e + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float series = 1.0f / 5040.0f;
  series = series * r + 1.0f / 720.0f;
  series = series * r + 1.0f / 120.0f;
  series = series * r + 1.0f / 24.0f;
  series = series * r + 1.0f / 6.0f;
  series = series * r + 0.5f;
  series = series * r * r + r + 1.0f;
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) << 23) + (127u << 23);
  return series * std::bit_cast<float>(exponent);
}

[[gnu::always_inline]] inline float SigmoidOf(float x) { return 1.0f / (1.0f + Exp(-x)); }

// Near zero the odd Taylor series, which 1 - 2/(e^2x + 1) would spoil by cancellation.
[[gnu::always_inline]] inline float TanhOf(float x) {
  const float square = x * x;
  float series = 62.0f / 2835.0f;
  series = series * square - 17.0f / 315.0f;
  series = series * square + 2.0f / 15.0f;
  series = series * square - 1.0f / 3.0f;
  const float near_zero = x + x * square * series;
  const float elsewhere = 1.0f - 2.0f / (Exp(2.0f * x) + 1.0f);
  return square < 0.01f ? near_zero : elsewhere;
}

// Rows' maxima are taken away first, so that no exponential overflows.
TRAINYARD_MULTIVERSION void Exponentials(const float* logits, size_t rows, size_t classes,
                                         float* to) {
  for (size_t row = 0; row < rows; ++row) {
    const float* x = logits + row * classes;
    float largest = x[0];
    for (size_t c = 1; c < classes; ++c) largest = x[c] > largest ? x[c] : largest;
    for (size_t c = 0; c < classes; ++c) to[row * classes + c] = x[c] - largest;
  }
  for (size_t i = 0; i < rows * classes; ++i) to[i] = Exp(to[i]);
}

}  // namespace

TRAINYARD_MULTIVERSION void AddBias(const float* bias, size_t rows, size_t columns, bool relu,
                                    float* y) {
  for (size_t row = 0; row < rows; ++row) {
    float* line = y + row * columns;
    if (relu) {
      TRAINYARD_INDEPENDENT
      for (size_t c = 0; c < columns; ++c) {
        const float value = line[c] + bias[c];
        line[c] = value < 0.0f ? 0.0f : value;  // NaN passes through
      }
    } else {
      TRAINYARD_INDEPENDENT
      for (size_t c = 0; c < columns; ++c) line[c] += bias[c];
    }
  }
}

TRAINYARD_MULTIVERSION void ColumnSums(const float* g, size_t rows, size_t columns, size_t begin,
                                       size_t end, float* sums) {
  std::fill(sums + begin, sums + end, 0.0f);
  for (size_t row = 0; row < rows; ++row) {
    const float* line = g + row * columns;
    TRAINYARD_INDEPENDENT
    for (size_t c = begin; c < end; ++c) sums[c] += line[c];
  }
}

TRAINYARD_MULTIVERSION void Relu(const float* x, size_t size, float* y) {
  TRAINYARD_INDEPENDENT
  for (size_t i = 0; i < size; ++i) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

TRAINYARD_MULTIVERSION void ReluBackward(const float* y, size_t size, float* g) {
  TRAINYARD_INDEPENDENT
  for (size_t i = 0; i < size; ++i) g[i] = y[i] > 0.0f ? g[i] : 0.0f;
}

TRAINYARD_MULTIVERSION void Sigmoid(const float* x, size_t size, float* y) {
  TRAINYARD_INDEPENDENT
  for (size_t i = 0; i < size; ++i) y[i] = SigmoidOf(x[i]);
}

TRAINYARD_MULTIVERSION void SigmoidBackward(const float* y, size_t size, float* g) {
  TRAINYARD_INDEPENDENT
  for (size_t i = 0; i < size; ++i) g[i] *= y[i] * (1.0f - y[i]);
}

TRAINYARD_MULTIVERSION void Tanh(const float* x, size_t size, float* y) {
  TRAINYARD_INDEPENDENT
  for (size_t i = 0; i < size; ++i) y[i] = TanhOf(x[i]);
}

TRAINYARD_MULTIVERSION void TanhBackward(const float* y, size_t size, float* g) {
  TRAINYARD_INDEPENDENT
  for (size_t i = 0; i < size; ++i) g[i] *= 1.0f - y[i] * y[i];
}

TRAINYARD_MULTIVERSION void Dropout(const float* x, size_t size, float rate, uint64_t seed,
                                    uint64_t first, float* y) {
  const float keep = 1.0f / (1.0f - rate);
  const auto threshold = static_cast<uint32_t>(static_cast<double>(rate) * 4294967296.0);
  const uint32_t low = Hash32(static_cast<uint32_t>(seed));
  const uint32_t key = Hash32(low ^ static_cast<uint32_t>(seed >> 32));
  const auto start = static_cast<uint32_t>(first);
  TRAINYARD_INDEPENDENT
  for (size_t i = 0; i < size; ++i) {
    const uint32_t draw = Hash32((start + static_cast<uint32_t>(i)) ^ key);
    y[i] = draw < threshold ? 0.0f : x[i] * keep;
  }
}

TRAINYARD_MULTIVERSION double AddL2(float l2, const float* w, size_t size, float* g) {
  constexpr size_t kLanes = 32;
  constexpr size_t kRun = 4096;  // short enough for f32 partial sums
  double total = 0.0;
  for (size_t begin = 0; begin < size; begin += kRun) {
    const size_t end = std::min(size, begin + kRun);
    float sums[kLanes] = {};
    size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      TRAINYARD_INDEPENDENT
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const float weight = w[i + lane];
        g[i + lane] += l2 * weight;
        sums[lane] += weight * weight;
      }
    }
    for (; i < end; ++i) {
      g[i] += l2 * w[i];
      sums[0] += w[i] * w[i];
    }
    for (float sum : sums) total += sum;
  }
  return total;
}

TRAINYARD_MULTIVERSION double SumOfSquares(const float* w, size_t size) {
  constexpr size_t kLanes = 16;
  double sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double weight = w[i + lane];
      sums[lane] += weight * weight;
    }
  }
  for (; i < size; ++i) sums[0] += static_cast<double>(w[i]) * w[i];
  double total = 0.0;
  for (double sum : sums) total += sum;
  return total;
}

TRAINYARD_MULTIVERSION void Add(const float* from, size_t size, float* to) {
  TRAINYARD_INDEPENDENT
  for (size_t i = 0; i < size; ++i) to[i] += from[i];
}

TRAINYARD_MULTIVERSION void ToBf16(const float* from, size_t size, uint16_t* to) {
  TRAINYARD_INDEPENDENT
  for (size_t i = 0; i < size; ++i) {
    const auto bits = std::bit_cast<uint32_t>(from[i]);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    to[i] = static_cast<uint16_t>(is_nan ? 0x7fc0u : rounded);
  }
}

TRAINYARD_MULTIVERSION double SoftmaxCrossEntropy(const float* logits, const int32_t* labels,
                                                  size_t rows, size_t classes, bool clipped,
                                                  float scale, float* scratch, float* gradient) {
  Exponentials(logits, rows, classes, scratch);
  double loss = 0.0;
  for (size_t row = 0; row < rows; ++row) {
    const float* e = scratch + row * classes;
    const auto label = static_cast<size_t>(labels[row]);
    float sum = 0.0f;
    for (size_t c = 0; c < classes; ++c) sum += e[c];
    const float* x = logits + row * classes;
    const float largest = *std::max_element(x, x + classes);
    const float log_probability = (x[label] - largest) - std::log(sum);
    const bool is_clipped = clipped && log_probability < std::log(kClip);
    loss -= is_clipped ? std::log(kClip) : log_probability;
    if (gradient == nullptr) continue;
    float* g = gradient + row * classes;
    const float factor = is_clipped ? 0.0f : scale / sum;
    for (size_t c = 0; c < classes; ++c) g[c] = e[c] * factor;
    g[label] -= is_clipped ? 0.0f : scale;
  }
  return loss;
}

TRAINYARD_MULTIVERSION double SquaredError(const float* y, const float* targets, size_t size,
                                           float scale, float* gradient) {
  double loss = 0.0;
  for (size_t i = 0; i < size; ++i) {
    const float error = y[i] - targets[i];
    loss += static_cast<double>(error) * error;
    if (gradient != nullptr) gradient[i] = 2.0f * scale * error;
  }
  return loss;
}

void SmallDense(const float* x, const float* w, size_t rows, size_t in, size_t out, float* y) {
  std::fill(y, y + rows * out, 0.0f);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < in; ++i) {
      const float value = x[row * in + i];
      for (size_t o = 0; o < out; ++o) y[row * out + o] += value * w[i * out + o];
    }
  }
}

void SmallDenseInputGradient(const float* g, const float* w, size_t rows, size_t in, size_t out,
                             float* dx) {
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < in; ++i) {
      float sum = 0.0f;
      for (size_t o = 0; o < out; ++o) sum += g[row * out + o] * w[i * out + o];
      dx[row * in + i] = sum;
    }
  }
}

void SmallDenseWeightGradient(const float* x, const float* g, size_t rows, size_t in, size_t out,
                              size_t begin, size_t end, float* dw) {
  std::fill(dw + begin * out, dw + end * out, 0.0f);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = begin; i < end; ++i) {
      const float value = x[row * in + i];
      for (size_t o = 0; o < out; ++o) dw[i * out + o] += value * g[row * out + o];
    }
  }
}

}  // namespace trainer::cpu
