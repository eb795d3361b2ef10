// A matrix product as the step asks for it, and the same on the host, for tests.
#pragma once

#include <cstdint>

namespace trainer::cuda {

// c(m, n) = a(m, k) · b(k, n), all row-major; then, in this order, each where asked for: + the c
// that was there, + bias(n) on every row, max(·, 0).
struct Product {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const float* a = nullptr;
  bool a_transposed = false;  // a is stored as (k, m)
  const float* b = nullptr;
  bool b_transposed = false;  // b is stored as (n, k)
  float* c = nullptr;
  bool accumulate = false;
  const float* bias = nullptr;
  bool relu = false;
};

inline void MultiplyOnHost(const Product& p) {
  for (int64_t row = 0; row < p.m; ++row) {
    for (int64_t column = 0; column < p.n; ++column) {
      double sum = 0.0;
      for (int64_t i = 0; i < p.k; ++i) {
        const double a = p.a_transposed ? p.a[i * p.m + row] : p.a[row * p.k + i];
        const double b = p.b_transposed ? p.b[column * p.k + i] : p.b[i * p.n + column];
        sum += a * b;
      }
      float& c = p.c[row * p.n + column];
      auto value = static_cast<float>(sum);
      if (p.accumulate) value += c;
      if (p.bias != nullptr) value += p.bias[column];
      c = p.relu && value < 0.0f ? 0.0f : value;
    }
  }
}

}  // namespace trainer::cuda
