// Convolutions by oneDNN: NHWC images, weights (height, width, in, out) as TensorFlow keeps them.
// Each thread works on its own examples; weight gradients are summed over the threads in order.
#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "trainer/cpu/kernels.h"
#include "trainer/cpu/layer.h"
#include "trainer/cpu/onednn.h"

namespace trainer::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// What one thread owns: operations on its slice, and its share of the gradients before the sum.
struct ConvThread {
  Slice slice;
  Operation pack_weights;            // (f32 from the flat buffer → the forward pass's format)
  Operation forward;                 // input, weights, bias, output
  Operation pack_backward_weights;   // the same for the input gradient
  Operation input_gradient;          // output gradient, weights, input gradient
  Operation weight_gradient;         // input, output gradient, weights, bias
  Operation unpack_weight_gradient;  // → partial_weights
  std::vector<float> partial_weights;
  std::vector<float> partial_bias;
};

class Conv2d : public CpuLayer {
 public:
  explicit Conv2d(LayerContext context)
      : context_(std::move(context)),
        spec_(context_.layer->spec),
        weights_(context_.model->variables()[context_.layer->weights]),
        bias_(context_.model->variables()[context_.layer->bias]) {}

  absl::Status Build() {
    if (context_.bf16) {
      inputs_bf16_.resize(context_.batch * context_.input_width());
      if (context_.training) gradients_bf16_.resize(context_.batch * context_.output_width());
    }
    states_.resize(context_.slices.size());
    for (size_t t = 0; t < states_.size(); ++t) {
      states_[t].slice = context_.slices[t];
      if (states_[t].slice.rows == 0) continue;
      RETURN_IF_ERROR(Guarded("a convolution", [&] { BuildThread(states_[t]); }));
    }
    return absl::OkStatus();
  }

  void Forward(const StepArgs& args, int thread) override {
    ConvThread& state = states_[thread];
    const auto [begin, rows] = state.slice;
    if (rows == 0) return;
    const int64_t in = context_.input_width();
    const int64_t out = context_.output_width();
    const float* x = context_.Input(args) + begin * in;
    if (context_.bf16) ToBf16(x, rows * in, inputs_bf16_.data() + begin * in);
    float* y = context_.tensors.output + begin * out;
    state.pack_weights.Set(0, args.parameters + weights_.offset);
    state.pack_weights.Run(context_.stream);
    state.forward.Set(0, InputOperand(x, begin * in));
    state.forward.Set(2, args.parameters + bias_.offset);
    state.forward.Set(3, y);
    state.forward.Run(context_.stream);
    if (context_.fused_relu) Relu(y, rows * out, y);
  }

  void Backward(const StepArgs& args, int thread) override {
    ConvThread& state = states_[thread];
    const auto [begin, rows] = state.slice;
    if (rows == 0) return;
    const int64_t in = context_.input_width();
    const int64_t out = context_.output_width();
    float* g = context_.tensors.output_gradient + begin * out;
    if (context_.fused_relu) ReluBackward(context_.tensors.output + begin * out, rows * out, g);
    const void* gradient = g;
    if (context_.bf16) {
      ToBf16(g, rows * out, gradients_bf16_.data() + begin * out);
      gradient = gradients_bf16_.data() + begin * out;
    }
    state.weight_gradient.Set(0, InputOperand(context_.Input(args) + begin * in, begin * in));
    state.weight_gradient.Set(1, gradient);
    state.weight_gradient.Run(context_.stream);
    state.unpack_weight_gradient.Run(context_.stream);
    if (context_.tensors.input_gradient == nullptr) return;
    state.pack_backward_weights.Set(0, args.parameters + weights_.offset);
    state.pack_backward_weights.Run(context_.stream);
    state.input_gradient.Set(0, gradient);
    state.input_gradient.Set(2, context_.tensors.input_gradient + begin * in);
    state.input_gradient.Run(context_.stream);
  }

  double WeightGradients(const StepArgs& args, int thread) override {
    const Range weights = PartOf(weights_.size, thread, context_.threads());
    const Range bias = PartOf(bias_.size, thread, context_.threads());
    float* weights_to = args.gradients + weights_.offset + weights.begin;
    float* bias_to = args.gradients + bias_.offset + bias.begin;
    std::fill(weights_to, weights_to + weights.size(), 0.0f);
    std::fill(bias_to, bias_to + bias.size(), 0.0f);
    for (const ConvThread& state : states_) {
      if (state.slice.rows == 0) continue;
      Add(state.partial_weights.data() + weights.begin, weights.size(), weights_to);
      Add(state.partial_bias.data() + bias.begin, bias.size(), bias_to);
    }
    const float l2 = context_.model->spec().l2;
    if (!weights_.l2 || l2 == 0.0f) return 0.0;
    return AddL2(l2, args.parameters + weights_.offset + weights.begin, weights.size(), weights_to);
  }

 private:
  struct Shapes {
    memory::desc input, any_weights, plain_weights, bias, output, input_gradient, output_gradient;
    memory::dims strides, pad_before, pad_after;
  };

  Shapes MakeShapes(int64_t rows) const {
    const auto& in = context_.layer->input_shape;
    const auto& out = context_.layer->output_shape;
    const auto f32 = memory::data_type::f32;
    const auto operand = context_.bf16 ? memory::data_type::bf16 : f32;
    const WindowExtent height = ConvWindow(in[0], spec_);
    const WindowExtent width = ConvWindow(in[1], spec_);
    const memory::dims weights = {out[2], in[2], spec_.kernel, spec_.kernel};
    return {.input = {{rows, in[2], in[0], in[1]}, operand, Tag::nhwc},
            .any_weights = {weights, operand, Tag::any},
            .plain_weights = {weights, f32, Tag::hwio},
            .bias = {{out[2]}, f32, Tag::a},
            .output = {{rows, out[2], out[0], out[1]}, f32, Tag::nhwc},
            .input_gradient = {{rows, in[2], in[0], in[1]}, f32, Tag::nhwc},
            .output_gradient = {{rows, out[2], out[0], out[1]}, operand, Tag::nhwc},
            .strides = {spec_.stride, spec_.stride},
            .pad_before = {height.pad_before, width.pad_before},
            .pad_after = {height.pad_after, width.pad_after}};
  }

  // May throw dnnl::error.
  void BuildThread(ConvThread& state) {
    const Shapes shapes = MakeShapes(state.slice.rows);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::convolution_forward::primitive_desc forward(
        {context_.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference,
         dnnl::algorithm::convolution_direct, shapes.input, shapes.any_weights, shapes.bias,
         shapes.output, shapes.strides, shapes.pad_before, shapes.pad_after},
        attributes, context_.engine);
    const memory weights(forward.weights_desc(), context_.engine);
    state.pack_weights = Pack(shapes.plain_weights, weights);
    state.forward = Operation(dnnl::convolution_forward(forward),
                              {{DNNL_ARG_SRC, Unbound(shapes.input, context_.engine)},
                               {DNNL_ARG_WEIGHTS, weights},
                               {DNNL_ARG_BIAS, Unbound(shapes.bias, context_.engine)},
                               {DNNL_ARG_DST, Unbound(shapes.output, context_.engine)},
                               {DNNL_ARG_SCRATCHPAD, Scratchpad(forward)}});
    if (!context_.training) return;
    BuildWeightGradient(state, shapes, forward, attributes);
    if (context_.tensors.input_gradient != nullptr) {
      BuildInputGradient(state, shapes, forward, attributes);
    }
  }

  void BuildWeightGradient(ConvThread& state, const Shapes& shapes,
                           const dnnl::convolution_forward::primitive_desc& forward,
                           const dnnl::primitive_attr& attributes) {
    // The sum over examples and pixels stays f32.
    memory::desc any_gradient = shapes.any_weights;
    any_gradient.data.data_type = dnnl_f32;
    const dnnl::convolution_backward_weights::primitive_desc desc(
        {dnnl::algorithm::convolution_direct, shapes.input, any_gradient, shapes.bias,
         shapes.output_gradient, shapes.strides, shapes.pad_before, shapes.pad_after},
        attributes, context_.engine, forward);
    state.partial_weights.resize(weights_.size);
    state.partial_bias.resize(bias_.size);
    const memory gradient(desc.diff_weights_desc(), context_.engine);
    const memory bias(shapes.bias, context_.engine, state.partial_bias.data());
    state.weight_gradient =
        Operation(dnnl::convolution_backward_weights(desc),
                  {{DNNL_ARG_SRC, Unbound(shapes.input, context_.engine)},
                   {DNNL_ARG_DIFF_DST, Unbound(shapes.output_gradient, context_.engine)},
                   {DNNL_ARG_DIFF_WEIGHTS, gradient},
                   {DNNL_ARG_DIFF_BIAS, bias},
                   {DNNL_ARG_SCRATCHPAD, Scratchpad(desc)}});
    const memory plain(shapes.plain_weights, context_.engine, state.partial_weights.data());
    state.unpack_weight_gradient = Operation(dnnl::reorder(gradient, plain),
                                             {{DNNL_ARG_FROM, gradient}, {DNNL_ARG_TO, plain}});
  }

  void BuildInputGradient(ConvThread& state, const Shapes& shapes,
                          const dnnl::convolution_forward::primitive_desc& forward,
                          const dnnl::primitive_attr& attributes) {
    const dnnl::convolution_backward_data::primitive_desc desc(
        {dnnl::algorithm::convolution_direct, shapes.input_gradient, shapes.any_weights,
         shapes.output_gradient, shapes.strides, shapes.pad_before, shapes.pad_after},
        attributes, context_.engine, forward);
    const memory weights(desc.weights_desc(), context_.engine);
    state.pack_backward_weights = Pack(shapes.plain_weights, weights);
    state.input_gradient =
        Operation(dnnl::convolution_backward_data(desc),
                  {{DNNL_ARG_DIFF_DST, Unbound(shapes.output_gradient, context_.engine)},
                   {DNNL_ARG_WEIGHTS, weights},
                   {DNNL_ARG_DIFF_SRC, Unbound(shapes.input_gradient, context_.engine)},
                   {DNNL_ARG_SCRATCHPAD, Scratchpad(desc)}});
  }

  Operation Pack(const memory::desc& from, const memory& to) const {
    const memory source = Unbound(from, context_.engine);
    return Operation(dnnl::reorder(source, to), {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, to}});
  }

  template <typename Desc>
  memory Scratchpad(const Desc& desc) const {
    return memory(desc.scratchpad_desc(), context_.engine);
  }

  const void* InputOperand(const float* f32, int64_t bf16_offset) const {
    if (context_.bf16) return inputs_bf16_.data() + bf16_offset;
    return f32;
  }

  const LayerContext context_;
  const LayerSpec& spec_;
  const Variable& weights_;
  const Variable& bias_;
  std::vector<ConvThread> states_;
  std::vector<uint16_t> inputs_bf16_;     // (batch, input)
  std::vector<uint16_t> gradients_bf16_;  // (batch, output)
};

}  // namespace

absl::StatusOr<std::unique_ptr<CpuLayer>> MakeConv2d(const LayerContext& context) {
  auto layer = std::make_unique<Conv2d>(context);
  RETURN_IF_ERROR(layer->Build());
  return layer;
}

}  // namespace trainer::cpu
