// Activations and dropout.
#include "trainer/cpu/kernels.h"
#include "trainer/cpu/layer.h"

namespace trainer::cpu {
namespace {

class Elementwise : public CpuLayer {
 public:
  explicit Elementwise(const LayerContext& context)
      : context_(context), kind_(context.layer->spec.kind), width_(context.output_width()) {}

  void Forward(const StepArgs& args, int thread) override {
    const Slice slice = context_.slices[thread];
    const size_t begin = slice.begin * width_;
    const size_t size = slice.rows * width_;
    const float* x = context_.Input(args) + begin;
    float* y = context_.tensors.output + begin;
    switch (kind_) {
      case LayerKind::kRelu:
        return Relu(x, size, y);
      case LayerKind::kSigmoid:
        return Sigmoid(x, size, y);
      case LayerKind::kTanh:
        return Tanh(x, size, y);
      default:
        return Drop(args, x, begin, size, y);
    }
  }

  // In place: input_gradient is output_gradient's memory.
  void Backward(const StepArgs& args, int thread) override {
    if (context_.tensors.input_gradient == nullptr) return;
    const Slice slice = context_.slices[thread];
    const size_t begin = slice.begin * width_;
    const size_t size = slice.rows * width_;
    const float* y = context_.tensors.output + begin;
    float* g = context_.tensors.output_gradient + begin;
    switch (kind_) {
      case LayerKind::kRelu:
        return ReluBackward(y, size, g);
      case LayerKind::kSigmoid:
        return SigmoidBackward(y, size, g);
      case LayerKind::kTanh:
        return TanhBackward(y, size, g);
      default:
        return Drop(args, g, begin, size, g);
    }
  }

 private:
  void Drop(const StepArgs& args, const float* x, size_t begin, size_t size, float* y) const {
    const float rate = args.training ? context_.layer->spec.rate : 0.0f;
    const uint64_t seed = args.dropout_seed + 0x9e3779b97f4a7c15u * (context_.index + 1u);
    Dropout(x, size, rate, seed, begin, y);
  }

  const LayerContext context_;
  const LayerKind kind_;
  const int64_t width_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CpuLayer>> MakeElementwise(const LayerContext& context) {
  return std::make_unique<Elementwise>(context);
}

}  // namespace trainer::cpu
