// Small deterministic random streams: the same numbers on every platform and compiler, which std::
// distributions do not promise. Not for cryptography.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace trainer {

// SplitMix64's output function: a bijective mixer (Steele, Lea, Flood: "Fast splittable
// pseudorandom number generators", 2014).
constexpr uint64_t MixBits(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// A stream named by a seed and a label: different labels give independent streams. Not thread-safe.
class RandomStream {
 public:
  RandomStream(uint64_t seed, std::string_view label) : state_(MixBits(seed + kGamma)) {
    for (char c : label) {
      state_ = MixBits((state_ ^ static_cast<unsigned char>(c)) + kGamma);
    }
  }

  uint64_t Next() {
    state_ += kGamma;
    return MixBits(state_);
  }

  // Uniform in [0, 1), 53 bits.
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

  // Standard normal, by the Box-Muller transform.
  double Normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform()));
    const double angle = 2.0 * std::numbers::pi * Uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

  // Standard normal, redrawn until within two standard deviations.
  double TruncatedNormal() {
    double value = Normal();
    while (std::abs(value) > 2.0) value = Normal();
    return value;
  }

 private:
  static constexpr uint64_t kGamma = 0x9e3779b97f4a7c15ULL;

  uint64_t state_;
  double spare_ = 0.0;
  bool has_spare_ = false;
};

}  // namespace trainer
