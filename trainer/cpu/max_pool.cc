// Max pooling over NHWC images. Padding never wins; among equals the first of the window does.
#include <algorithm>
#include <limits>

#include "trainer/cpu/layer.h"
#include "trainer/model/multiversion.h"

namespace trainer::cpu {
namespace {

// best, winner (channels) become the larger of themselves and `candidate` at window place `place`.
TRAINYARD_MULTIVERSION void KeepLarger(const float* candidate, int32_t place, size_t channels,
                                       float* best, int32_t* winner) {
  TRAINYARD_INDEPENDENT
  for (size_t c = 0; c < channels; ++c) {
    const bool larger = candidate[c] > best[c] || candidate[c] != candidate[c];  // NaN stays seen
    winner[c] = larger ? place : winner[c];
    best[c] = larger ? candidate[c] : best[c];
  }
}

// dx += g where `place` won.
TRAINYARD_MULTIVERSION void AddToWinner(const float* g, const int32_t* winner, int32_t place,
                                        size_t channels, float* dx) {
  TRAINYARD_INDEPENDENT
  for (size_t c = 0; c < channels; ++c) dx[c] += winner[c] == place ? g[c] : 0.0f;
}

class MaxPool : public CpuLayer {
 public:
  explicit MaxPool(const LayerContext& context)
      : context_(context),
        spec_(context.layer->spec),
        height_(context.layer->input_shape[0]),
        width_(context.layer->input_shape[1]),
        channels_(context.layer->input_shape[2]),
        rows_(ConvWindow(height_, spec_)),
        columns_(ConvWindow(width_, spec_)),
        winners_(context.batch * context.output_width()) {}

  void Forward(const StepArgs& args, int thread) override {
    const Slice slice = context_.slices[thread];
    const float* input = context_.Input(args);
    const int64_t out_size = context_.output_width();
    for (int64_t i = slice.begin; i < slice.begin + slice.rows; ++i) {
      float* y = context_.tensors.output + i * out_size;
      int32_t* winner = winners_.data() + i * out_size;
      std::fill(y, y + out_size, -std::numeric_limits<float>::infinity());
      std::fill(winner, winner + out_size, 0);
      const float* x = input + i * height_ * width_ * channels_;
      ForEachPlace([&](int64_t from, int64_t to, int32_t place) {
        KeepLarger(x + from, place, channels_, y + to, winner + to);
      });
    }
  }

  void Backward(const StepArgs& /*args*/, int thread) override {
    if (context_.tensors.input_gradient == nullptr) return;
    const Slice slice = context_.slices[thread];
    const int64_t in_size = height_ * width_ * channels_;
    const int64_t out_size = context_.output_width();
    for (int64_t i = slice.begin; i < slice.begin + slice.rows; ++i) {
      float* dx = context_.tensors.input_gradient + i * in_size;
      const float* g = context_.tensors.output_gradient + i * out_size;
      const int32_t* winner = winners_.data() + i * out_size;
      std::fill(dx, dx + in_size, 0.0f);
      ForEachPlace([&](int64_t to, int64_t from, int32_t place) {
        AddToWinner(g + from, winner + from, place, channels_, dx + to);
      });
    }
  }

 private:
  // Calls visit(offset in the input, offset in the output, place in the window) for each pixel of
  // each window that lies inside the image.
  template <typename Visit>
  void ForEachPlace(const Visit& visit) const {
    for (int64_t row = 0; row < rows_.output; ++row) {
      for (int64_t column = 0; column < columns_.output; ++column) {
        VisitWindow(row, column, visit);
      }
    }
  }

  template <typename Visit>
  void VisitWindow(int64_t row, int64_t column, const Visit& visit) const {
    const int64_t top = row * spec_.stride - rows_.pad_before;
    const int64_t left = column * spec_.stride - columns_.pad_before;
    const int64_t out = (row * columns_.output + column) * channels_;
    for (int64_t y = std::max<int64_t>(0, top); y < std::min(height_, top + spec_.kernel); ++y) {
      for (int64_t x = std::max<int64_t>(0, left); x < std::min(width_, left + spec_.kernel); ++x) {
        const int64_t place = (y - top) * spec_.kernel + (x - left);
        visit((y * width_ + x) * channels_, out, static_cast<int32_t>(place));
      }
    }
  }

  const LayerContext context_;
  const LayerSpec& spec_;
  const int64_t height_;
  const int64_t width_;
  const int64_t channels_;
  const WindowExtent rows_;
  const WindowExtent columns_;
  std::vector<int32_t>
      winners_;  // (batch, output): which place of its window each output came from
};

}  // namespace

absl::StatusOr<std::unique_ptr<CpuLayer>> MakeMaxPool(const LayerContext& context) {
  return std::make_unique<MaxPool>(context);
}

}  // namespace trainer::cpu
