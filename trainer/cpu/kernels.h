// Elementwise loops and reductions over contiguous f32 arrays, vectorised for the CPU at hand.
// PURE. Where two pointers are given they are the same memory or do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trainer::cpu {

// y(rows, columns) += bias(columns), then max(·, 0) if relu.
void AddBias(const float* bias, size_t rows, size_t columns, bool relu, float* y);
// sums(c) = Σ over rows of g(rows, columns) at column c, for c in [begin, end).
void ColumnSums(const float* g, size_t rows, size_t columns, size_t begin, size_t end, float* sums);

// Forward: y = f(x). Backward: g = f'(x) · g, from the output y.
void Relu(const float* x, size_t size, float* y);
void ReluBackward(const float* y, size_t size, float* g);
void Sigmoid(const float* x, size_t size, float* y);
void SigmoidBackward(const float* y, size_t size, float* g);
void Tanh(const float* x, size_t size, float* y);
void TanhBackward(const float* y, size_t size, float* g);

// y = x / (1 - rate), or 0 with probability `rate`; element i is dropped or not by a hash of
// (seed, first + i) alone, so the backward pass is the same call on the gradient.
void Dropout(const float* x, size_t size, float rate, uint64_t seed, uint64_t first, float* y);

// g += l2 · w; returns Σ w².
double AddL2(float l2, const float* w, size_t size, float* g);
double SumOfSquares(const float* w, size_t size);
// to += from.
void Add(const float* from, size_t size, float* to);

// Rounds to nearest even, as the hardware does. NaN stays NaN.
void ToBf16(const float* from, size_t size, uint16_t* to);

// Softmax cross-entropy of logits(rows, classes) against labels(rows). Returns the sum of the
// losses over the rows; gradient(rows, classes), where not null, gets scale · d loss / d logits.
// clipped: probabilities below 1e-10 count as 1e-10, and their rows get no gradient.
// REQUIRES: 0 <= label < classes. scratch: rows · classes.
double SoftmaxCrossEntropy(const float* logits, const int32_t* labels, size_t rows, size_t classes,
                           bool clipped, float scale, float* scratch, float* gradient);
// Squared error: the sum over all elements; gradient = scale · 2 (y - target).
double SquaredError(const float* y, const float* targets, size_t size, float scale,
                    float* gradient);

// Dense layers too small for a library call. x(rows, in), w(in, out), bias(out) or null.
void SmallDense(const float* x, const float* w, size_t rows, size_t in, size_t out, float* y);
void SmallDenseInputGradient(const float* g, const float* w, size_t rows, size_t in, size_t out,
                             float* dx);
// dw rows [begin, end) = xᵀ·g.
void SmallDenseWeightGradient(const float* x, const float* g, size_t rows, size_t in, size_t out,
                              size_t begin, size_t end, float* dw);

}  // namespace trainer::cpu
