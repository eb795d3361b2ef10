// Dense layers. Forward and input gradient are products over a thread's own examples; the weight
// gradient is shared out by rows of the weights, in blocks that stay in cache for the L2 pass.
#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "trainer/cpu/kernels.h"
#include "trainer/cpu/layer.h"
#include "trainer/cpu/onednn.h"

namespace trainer::cpu {
namespace {

// Below so many multiplications a library call costs more than it saves.
constexpr int64_t kSmallProducts = 8192;
// Elements of a block of the weight gradient: a quarter of a MiB, well inside a core's L2 cache.
constexpr int64_t kBlockElements = 65536;

// Packing the operands of the weight gradient pays while they stay in cache and are used for many
// columns.
constexpr int64_t kPackedBatch = 256;
constexpr int64_t kPackedColumns = 64;

// How many rows of the weight gradient to compute at a time: even blocks where there is a choice.
int64_t BlockRows(int64_t rows, int64_t columns) {
  const int64_t most = std::max<int64_t>(16, kBlockElements / columns);
  const int64_t fewest_blocks = (rows + most - 1) / most;
  for (int64_t blocks = fewest_blocks; blocks < fewest_blocks + 4; ++blocks) {
    if (rows % blocks == 0) return rows / blocks;
  }
  return (rows + fewest_blocks - 1) / fewest_blocks;
}

// What one thread owns.
struct DenseThread {
  Slice slice;
  Range weight_rows;
  int64_t block_rows = 0;
  Matmul forward;         // bf16 only: f32 takes dnnl_sgemm, which is faster on unpacked operands
  Matmul input_gradient;  // bf16 only
  Matmul block;           // a block of the weight gradient
  Matmul last_block;      // the rest where blocks do not come out even
};

class Dense : public CpuLayer {
 public:
  explicit Dense(LayerContext context)
      : context_(std::move(context)),
        in_(context_.input_width()),
        out_(context_.output_width()),
        weights_(context_.model->variables()[context_.layer->weights]),
        bias_(context_.model->variables()[context_.layer->bias]),
        small_(context_.batch * in_ * out_ <= kSmallProducts),
        packed_(context_.batch <= kPackedBatch && out_ >= kPackedColumns) {}

  absl::Status Build() {
    states_.resize(context_.slices.size());
    if (context_.bf16 && !small_) {
      inputs_bf16_.resize(context_.batch * in_);
      weights_bf16_.resize(in_ * out_);
      if (context_.training) gradients_bf16_.resize(context_.batch * out_);
    }
    for (int t = 0; t < context_.threads(); ++t) RETURN_IF_ERROR(BuildThread(t));
    return absl::OkStatus();
  }

  bool prepares_weights() const override { return !weights_bf16_.empty(); }
  void PrepareWeights(const StepArgs& args, int thread) override {
    const Range part = PartOf(in_ * out_, thread, context_.threads());
    ToBf16(args.parameters + weights_.offset + part.begin, part.size(),
           weights_bf16_.data() + part.begin);
  }

  void Forward(const StepArgs& args, int thread) override {
    DenseThread& state = states_[thread];
    const auto [begin, rows] = state.slice;
    if (rows == 0) return;
    const float* x = context_.Input(args) + begin * in_;
    const float* w = args.parameters + weights_.offset;
    float* y = context_.tensors.output + begin * out_;
    if (small_) {
      SmallDense(x, w, rows, in_, out_, y);
    } else if (context_.bf16) {
      uint16_t* x_bf16 = inputs_bf16_.data() + begin * in_;
      ToBf16(x, rows * in_, x_bf16);
      state.forward.Run(context_.stream, x_bf16, weights_bf16_.data(), y);
    } else {
      dnnl_sgemm('N', 'N', rows, out_, in_, 1.0f, x, in_, w, out_, 0.0f, y, out_);
    }
    AddBias(args.parameters + bias_.offset, rows, out_, context_.fused_relu, y);
  }

  void Backward(const StepArgs& args, int thread) override {
    DenseThread& state = states_[thread];
    const auto [begin, rows] = state.slice;
    if (rows == 0) return;
    float* g = context_.tensors.output_gradient + begin * out_;
    if (context_.fused_relu) ReluBackward(context_.tensors.output + begin * out_, rows * out_, g);
    const bool bf16 = context_.bf16 && !small_;
    if (bf16) ToBf16(g, rows * out_, gradients_bf16_.data() + begin * out_);
    if (context_.tensors.input_gradient == nullptr) return;
    const float* w = args.parameters + weights_.offset;
    float* dx = context_.tensors.input_gradient + begin * in_;
    if (small_) {
      SmallDenseInputGradient(g, w, rows, in_, out_, dx);
    } else if (bf16) {
      state.input_gradient.Run(context_.stream, gradients_bf16_.data() + begin * out_,
                               weights_bf16_.data(), dx);
    } else {
      dnnl_sgemm('N', 'T', rows, in_, out_, 1.0f, g, out_, w, out_, 0.0f, dx, in_);
    }
  }

  double WeightGradients(const StepArgs& args, int thread) override {
    const Range bias = PartOf(out_, thread, context_.threads());
    ColumnSums(context_.tensors.output_gradient, context_.batch, out_, bias.begin, bias.end,
               args.gradients + bias_.offset);
    DenseThread& state = states_[thread];
    const Range rows = state.weight_rows;
    if (rows.size() == 0) return 0.0;
    if (small_) {
      SmallDenseWeightGradient(context_.Input(args), context_.tensors.output_gradient,
                               context_.batch, in_, out_, rows.begin, rows.end,
                               args.gradients + weights_.offset);
      return AddL2To(args, rows);
    }
    if (packed_) state.block.PackB(context_.stream, OutputGradient());
    if (packed_ && state.last_block) state.last_block.PackB(context_.stream, OutputGradient());
    double squares = 0.0;
    // From the last rows to the first: the forward pass read the last weights last, so they are
    // still in cache for the L2 pass, and the optimiser will begin with the first rows.
    const int64_t blocks = (rows.size() + state.block_rows - 1) / state.block_rows;
    for (int64_t i = blocks; i-- > 0;) {
      const int64_t row = rows.begin + i * state.block_rows;
      const Range block = {row, std::min(rows.end, row + state.block_rows)};
      Matmul& product = block.size() == state.block_rows ? state.block : state.last_block;
      float* to = args.gradients + weights_.offset + row * out_;
      if (packed_) {
        product.PackA(context_.stream, InputColumn(args, row));
        product.RunPacked(context_.stream, to);
      } else {
        product.Run(context_.stream, InputColumn(args, row), OutputGradient(), to);
      }
      squares += AddL2To(args, block);
    }
    return squares;
  }

 private:
  absl::Status BuildThread(int thread) {
    DenseThread& state = states_[thread];
    state.slice = context_.slices[thread];
    state.weight_rows = PartOf(in_, thread, context_.threads());
    if (small_) return absl::OkStatus();
    if (context_.bf16 && state.slice.rows > 0) RETURN_IF_ERROR(BuildBf16Products(state));
    if (!context_.training || state.weight_rows.size() == 0) return absl::OkStatus();
    state.block_rows = BlockRows(state.weight_rows.size(), out_);
    ASSIGN_OR_RETURN(state.block, MakeBlock(state.block_rows));
    const int64_t rest = state.weight_rows.size() % state.block_rows;
    if (rest == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(state.last_block, MakeBlock(rest));
    return absl::OkStatus();
  }

  absl::Status BuildBf16Products(DenseThread& state) {
    MatmulShape forward;
    forward.m = state.slice.rows;
    forward.n = out_;
    forward.k = in_;
    forward.a_row_stride = in_;
    forward.b_row_stride = out_;
    forward.bf16 = true;
    ASSIGN_OR_RETURN(state.forward, Matmul::Create(context_.engine, forward));
    if (context_.tensors.input_gradient == nullptr) return absl::OkStatus();
    MatmulShape backward;
    backward.m = state.slice.rows;
    backward.n = in_;
    backward.k = out_;
    backward.a_row_stride = out_;
    backward.b_row_stride = 1;
    backward.b_column_stride = out_;
    backward.bf16 = true;
    ASSIGN_OR_RETURN(state.input_gradient, Matmul::Create(context_.engine, backward));
    return absl::OkStatus();
  }

  // dW(rows, out) = Xᵀ(rows, batch) · G(batch, out).
  absl::StatusOr<Matmul> MakeBlock(int64_t rows) const {
    MatmulShape shape;
    shape.m = rows;
    shape.n = out_;
    shape.k = context_.batch;
    shape.a_row_stride = 1;
    shape.a_column_stride = in_;
    shape.b_row_stride = out_;
    shape.bf16 = context_.bf16;
    shape.packed = packed_;
    return Matmul::Create(context_.engine, shape);
  }

  const void* OutputGradient() const {
    if (context_.bf16) return gradients_bf16_.data();
    return context_.tensors.output_gradient;
  }

  const void* InputColumn(const StepArgs& args, int64_t column) const {
    if (context_.bf16) return inputs_bf16_.data() + column;
    return context_.Input(args) + column;
  }

  double AddL2To(const StepArgs& args, Range rows) const {
    const float l2 = context_.model->spec().l2;
    if (!weights_.l2 || l2 == 0.0f) return 0.0;
    const int64_t offset = weights_.offset + rows.begin * out_;
    return AddL2(l2, args.parameters + offset, rows.size() * out_, args.gradients + offset);
  }

  const LayerContext context_;
  const int64_t in_;
  const int64_t out_;
  const Variable& weights_;
  const Variable& bias_;
  const bool small_;
  const bool packed_;  // operands of the weight gradient
  std::vector<DenseThread> states_;
  std::vector<uint16_t> inputs_bf16_;     // (batch, in)
  std::vector<uint16_t> weights_bf16_;    // (in, out)
  std::vector<uint16_t> gradients_bf16_;  // (batch, out)
};

}  // namespace

absl::StatusOr<std::unique_ptr<CpuLayer>> MakeDense(const LayerContext& context) {
  auto layer = std::make_unique<Dense>(context);
  RETURN_IF_ERROR(layer->Build());
  return layer;
}

}  // namespace trainer::cpu
