// A small generator whose numbers are the same on every platform: the standard library leaves the
// results of its shuffles and distributions to the implementation.
#pragma once

#include <cmath>
#include <cstdint>

namespace trainer {

// Steele, Lea, Flood (2014): one step of splitmix64. Also mixes two seeds into one.
constexpr uint64_t SplitMix64(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// xoshiro256** (Blackman and Vigna, 2018). `stream` gives independent sequences for one seed, e.g.
// one for each epoch or example. Not thread-safe.
class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0) {
    uint64_t state = seed;
    state = SplitMix64(state) ^ (stream * 0xd1342543de82ef95u);
    for (uint64_t& word : words_) word = SplitMix64(state);
  }

  uint64_t Next() {
    const uint64_t result = RotateLeft(words_[1] * 5, 7) * 9;
    const uint64_t shifted = words_[1] << 17;
    words_[2] ^= words_[0];
    words_[3] ^= words_[1];
    words_[1] ^= words_[2];
    words_[0] ^= words_[3];
    words_[2] ^= shifted;
    words_[3] = RotateLeft(words_[3], 45);
    return result;
  }

  // Uniform in [0, bound). REQUIRES: bound > 0.
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(((Next() >> 32) * bound) >> 32); }

  // Uniform in [0, 1), a multiple of 2^-24.
  float Uniform() { return static_cast<float>(Next() >> 40) * 0x1p-24f; }

  // Uniform in [low, high).
  float Uniform(float low, float high) { return low + (high - low) * Uniform(); }

  // Standard normal, by Marsaglia's polar method.
  float Normal() {
    for (;;) {
      const double u = 2.0 * Uniform() - 1.0;
      const double v = 2.0 * Uniform() - 1.0;
      const double s = u * u + v * v;
      if (s > 0.0 && s < 1.0) return static_cast<float>(u * std::sqrt(-2.0 * std::log(s) / s));
    }
  }

 private:
  static constexpr uint64_t RotateLeft(uint64_t x, int bits) {
    return (x << bits) | (x >> (64 - bits));
  }

  uint64_t words_[4];
};

}  // namespace trainer
