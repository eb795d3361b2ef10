// Bodies of kernels over the windows of NHWC images: max pooling, and the two moves that make a
// convolution a matrix product (images to rows of windows, and back). No two threads write one
// element, so sums come out the same every time.
#pragma once

#include <cmath>
#include <cstdint>

#include "trainer/cuda/plugin/launch.h"

namespace trainer::cuda {

// How square windows lie on images (see ConvWindow in trainer/model/model.h).
struct Windows {
  int64_t in_height, in_width, channels;
  int64_t out_height, out_width;
  int64_t kernel, stride, pad_top, pad_left;

  TRAINER_CUDA_HD int64_t in_size() const { return in_height * in_width * channels; }
  // Elements of one example's windows: (out_height · out_width, kernel · kernel · channels).
  TRAINER_CUDA_HD int64_t row_width() const { return kernel * kernel * channels; }
  TRAINER_CUDA_HD int64_t window_elements() const { return out_height * out_width * row_width(); }
};

// Element i of input images, taken apart.
struct Pixel {
  int64_t example, y, x, channel;
  TRAINER_CUDA_HD Pixel(int64_t i, int64_t height, int64_t width, int64_t channels)
      : example(i / channels / width / height),
        y(i / channels / width % height),
        x(i / channels % width),
        channel(i % channels) {}
};

// rows(examples · out_height · out_width, kernel · kernel · channels) of images; 0 outside.
struct GatherWindowsBody {
  Windows windows;
  const float* images;
  float* rows;
  TRAINER_CUDA_HD void operator()(int64_t i) const {
    const int64_t width = windows.row_width();
    const Pixel at(i / width, windows.out_height, windows.out_width, 1);
    const int64_t place = i % width / windows.channels;
    const int64_t y = at.y * windows.stride - windows.pad_top + place / windows.kernel;
    const int64_t x = at.x * windows.stride - windows.pad_left + place % windows.kernel;
    const bool inside = y >= 0 && y < windows.in_height && x >= 0 && x < windows.in_width;
    const int64_t from = at.example * windows.in_size() +
                         (y * windows.in_width + x) * windows.channels + i % windows.channels;
    rows[i] = inside ? images[from] : 0.0f;
  }
};

// The output coordinate whose window has `in` at its place `place`, or -1.
TRAINER_CUDA_HD inline int64_t WindowAt(int64_t in, int64_t pad, int64_t place, int64_t stride,
                                        int64_t outputs) {
  const int64_t start = in + pad - place;
  if (start < 0 || start % stride != 0) return -1;
  return start / stride < outputs ? start / stride : -1;
}

// The reverse: images = the sum of all elements of rows that were gathered from a pixel.
struct SumWindowsBody {
  Windows windows;
  const float* rows;
  float* images;
  TRAINER_CUDA_HD void operator()(int64_t i) const {
    const Pixel at(i, windows.in_height, windows.in_width, windows.channels);
    float sum = 0.0f;
    for (int64_t place = 0; place < windows.kernel * windows.kernel; ++place) {
      const int64_t y = WindowAt(at.y, windows.pad_top, place / windows.kernel, windows.stride,
                                 windows.out_height);
      const int64_t x = WindowAt(at.x, windows.pad_left, place % windows.kernel, windows.stride,
                                 windows.out_width);
      if (y < 0 || x < 0) continue;
      const int64_t row = (at.example * windows.out_height + y) * windows.out_width + x;
      sum += rows[row * windows.row_width() + place * windows.channels + at.channel];
    }
    images[i] = sum;
  }
};

// y and the place of the window that it came from; padding never wins, among equals the first.
struct MaxPoolBody {
  Windows windows;
  const float* images;
  float* y;
  int32_t* winners;
  TRAINER_CUDA_HD void operator()(int64_t i) const {
    const Pixel at(i, windows.out_height, windows.out_width, windows.channels);
    float best = -INFINITY;
    int32_t winner = 0;
    for (int64_t place = 0; place < windows.kernel * windows.kernel; ++place) {
      const int64_t row = at.y * windows.stride - windows.pad_top + place / windows.kernel;
      const int64_t column = at.x * windows.stride - windows.pad_left + place % windows.kernel;
      if (row < 0 || row >= windows.in_height || column < 0 || column >= windows.in_width) continue;
      const float value = images[at.example * windows.in_size() +
                                 (row * windows.in_width + column) * windows.channels + at.channel];
      if (value > best || value != value) {  // NaN stays seen
        best = value;
        winner = static_cast<int32_t>(place);
      }
    }
    y[i] = best;
    winners[i] = winner;
  }
};

// dx = the sum of the output gradients of all windows that a pixel won.
struct MaxPoolBackwardBody {
  Windows windows;
  const float* g;
  const int32_t* winners;
  float* dx;
  TRAINER_CUDA_HD void operator()(int64_t i) const {
    const Pixel at(i, windows.in_height, windows.in_width, windows.channels);
    float sum = 0.0f;
    for (int64_t place = windows.kernel * windows.kernel; place-- > 0;) {
      const int64_t y = WindowAt(at.y, windows.pad_top, place / windows.kernel, windows.stride,
                                 windows.out_height);
      const int64_t x = WindowAt(at.x, windows.pad_left, place % windows.kernel, windows.stride,
                                 windows.out_width);
      if (y < 0 || x < 0) continue;
      const int64_t out =
          ((at.example * windows.out_height + y) * windows.out_width + x) * windows.channels +
          at.channel;
      if (winners[out] == place) sum += g[out];
    }
    dx[i] = sum;
  }
};

}  // namespace trainer::cuda
