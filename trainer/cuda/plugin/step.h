// A model's whole step as a sequence of kernels and matrix products over buffers in a device's
// memory. Runner launches them: on a GPU (gpu_runner.h), or in loops on the host (host_runner.h),
// where tests compare the very same sequence with the CPU backend.
//
// A Runner has
//   T* Allocate<T>(int64_t count)                pieces that it frees itself; null after an error
//   void Each(int64_t size, const Body&)         see launch.h
//   void Blocks(int64_t blocks, const Body&)
//   void Multiply(const Product&)
// and remembers its first error, after which it does nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "trainer/cuda/plugin/elementwise.h"
#include "trainer/cuda/plugin/layer_facts.h"
#include "trainer/cuda/plugin/product.h"
#include "trainer/cuda/plugin/reduce.h"
#include "trainer/cuda/plugin/softmax.h"
#include "trainer/cuda/plugin/step_buffers.h"
#include "trainer/cuda/plugin/windows.h"
#include "trainer/cuda/plugin_api.h"

namespace trainer::cuda {

template <typename Runner>
class Step {
 public:
  // REQUIRES: runner outlives the object; the model has been checked.
  Step(Runner* runner, const TrainerCudaModel& model, int64_t batch, bool training)
      : runner_(*runner),
        model_(model),
        layers_(model.layers, model.layers + model.layer_count),
        first_trained_(FirstTrained(layers_)),
        buffers_(MakeStepBuffers(runner_, layers_, model.parameter_count, batch, training)),
        x_(layers_.size()),
        y_(layers_.size()) {}

  const StepBuffers& buffers() const { return buffers_; }
  int64_t input_width() const { return InWidth(layers_.front()); }
  int64_t output_width() const { return OutWidth(layers_.back()); }
  // Of a forward pass with dropout (training) or without.
  const float* Outputs(bool training) const {
    const float* outputs = buffers_.inputs;
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (IsPassedOn(layers_, i) || (layers_[i].kind == kTrainerCudaDropout && !training)) continue;
      outputs = buffers_.outputs[i];
    }
    return outputs;
  }

  void Forward(int64_t rows, bool training) {
    const float* x = buffers_.inputs;
    for (size_t i = 0; i < layers_.size(); ++i) {
      x_[i] = x;
      y_[i] = ForwardLayer(i, rows, training);
      x = y_[i];
    }
  }

  // Forward, loss, backward. REQUIRES: training.
  void Gradients(int64_t rows) {
    Forward(rows, true);
    Loss(rows);
    float* g = buffers_.output_gradients[0];
    float* spare = buffers_.output_gradients[1];
    int64_t squares = 0;
    for (size_t i = layers_.size(); i-- > first_trained_;) {
      if (BackwardLayer(i, rows, g, spare)) std::swap(g, spare);
      squares += AddL2(i, buffers_.square_partials + squares);
    }
    runner_.Blocks(1, SumDoubles{buffers_.square_partials, squares, 1, buffers_.sums + 1});
  }

 private:
  // Whether layer i does the ReLU that follows it.
  bool FusesRelu(size_t i) const { return IsFusedRelu(layers_, i + 1); }

  const float* ForwardLayer(size_t i, int64_t rows, bool training) {
    const TrainerCudaLayer& layer = layers_[i];
    const float* x = x_[i];
    float* y = buffers_.outputs[i];
    const int64_t size = rows * OutWidth(layer);
    switch (layer.kind) {
      case kTrainerCudaDense:
        ForwardDense(i, rows);
        return y;
      case kTrainerCudaConv2d:
        ForwardConv(i, rows);
        return y;
      case kTrainerCudaMaxPool:
        runner_.Each(size, MaxPoolBody{WindowsOf(layer), x, y, buffers_.winners[i]});
        return y;
      case kTrainerCudaRelu:
        if (IsFusedRelu(layers_, i)) return x;
        runner_.Each(size, ReluBody{x, y});
        return y;
      case kTrainerCudaSigmoid:
        runner_.Each(size, SigmoidBody{x, y});
        return y;
      case kTrainerCudaTanh:
        runner_.Each(size, TanhBody{x, y});
        return y;
      case kTrainerCudaDropout:
        if (!training) return x;
        runner_.Each(size, Dropout(i, x, y));
        return y;
      default:
        return x;
    }
  }

  // g: the gradient of layer i's output, may be overwritten. True: that of its input is in `spare`;
  // false: it is in `g`, or nobody needs it.
  bool BackwardLayer(size_t i, int64_t rows, float* g, float* spare) {
    const TrainerCudaLayer& layer = layers_[i];
    const int64_t size = rows * OutWidth(layer);
    switch (layer.kind) {
      case kTrainerCudaDense:
      case kTrainerCudaConv2d:
        if (FusesRelu(i)) runner_.Each(size, ReluBackwardBody{y_[i], g});
        ColumnSums(rows * layer.out_height * layer.out_width, layer, g);
        return layer.kind == kTrainerCudaDense ? BackwardDense(i, rows, g, spare)
                                               : BackwardConv(i, rows, g, spare);
      case kTrainerCudaMaxPool:
        runner_.Each(rows * InWidth(layer),
                     MaxPoolBackwardBody{WindowsOf(layer), g, buffers_.winners[i], spare});
        return true;
      case kTrainerCudaRelu:
        if (!IsFusedRelu(layers_, i)) runner_.Each(size, ReluBackwardBody{y_[i], g});
        return false;
      case kTrainerCudaSigmoid:
        runner_.Each(size, SigmoidBackwardBody{y_[i], g});
        return false;
      case kTrainerCudaTanh:
        runner_.Each(size, TanhBackwardBody{y_[i], g});
        return false;
      case kTrainerCudaDropout:
        runner_.Each(size, Dropout(i, g, g));
        return false;
      default:
        return false;
    }
  }

  void ForwardDense(size_t i, int64_t rows) {
    const TrainerCudaLayer& layer = layers_[i];
    runner_.Multiply({.m = rows,
                      .n = layer.out_channels,
                      .k = InWidth(layer),
                      .a = x_[i],
                      .b = buffers_.parameters + layer.weights_offset,
                      .c = buffers_.outputs[i],
                      .bias = buffers_.parameters + layer.bias_offset,
                      .relu = FusesRelu(i)});
  }

  bool BackwardDense(size_t i, int64_t rows, const float* g, float* dx) {
    const TrainerCudaLayer& layer = layers_[i];
    const int64_t in = InWidth(layer);
    const int64_t out = layer.out_channels;
    runner_.Multiply({.m = in,
                      .n = out,
                      .k = rows,
                      .a = x_[i],
                      .a_transposed = true,
                      .b = g,
                      .c = buffers_.gradients + layer.weights_offset});
    if (i == first_trained_) return false;
    runner_.Multiply({.m = rows,
                      .n = in,
                      .k = out,
                      .a = g,
                      .b = buffers_.parameters + layer.weights_offset,
                      .b_transposed = true,
                      .c = dx});
    return true;
  }

  // Calls with (first example, its number of rows of windows) for each chunk; visit's windows are
  // those of these examples.
  template <typename Visit>
  void ForEachChunk(const TrainerCudaLayer& layer, int64_t rows, const Visit& visit) {
    const int64_t chunk = ExamplesAtATime(layer, rows);
    for (int64_t first = 0; first < rows; first += chunk) {
      const int64_t examples = std::min(chunk, rows - first);
      visit(first, examples);
    }
  }

  void ForwardConv(size_t i, int64_t rows) {
    const TrainerCudaLayer& layer = layers_[i];
    const Windows windows = WindowsOf(layer);
    const int64_t pixels = layer.out_height * layer.out_width;
    ForEachChunk(layer, rows, [&](int64_t first, int64_t examples) {
      runner_.Each(examples * windows.window_elements(),
                   GatherWindowsBody{windows, x_[i] + first * InWidth(layer), buffers_.windows});
      runner_.Multiply({.m = examples * pixels,
                        .n = layer.out_channels,
                        .k = windows.row_width(),
                        .a = buffers_.windows,
                        .b = buffers_.parameters + layer.weights_offset,
                        .c = buffers_.outputs[i] + first * OutWidth(layer),
                        .bias = buffers_.parameters + layer.bias_offset,
                        .relu = FusesRelu(i)});
    });
  }

  bool BackwardConv(size_t i, int64_t rows, const float* g, float* dx) {
    const TrainerCudaLayer& layer = layers_[i];
    const Windows windows = WindowsOf(layer);
    const int64_t pixels = layer.out_height * layer.out_width;
    const bool needs_input = i > first_trained_;
    ForEachChunk(layer, rows, [&](int64_t first, int64_t examples) {
      const float* own_g = g + first * OutWidth(layer);
      runner_.Each(examples * windows.window_elements(),
                   GatherWindowsBody{windows, x_[i] + first * InWidth(layer), buffers_.windows});
      runner_.Multiply({.m = windows.row_width(),
                        .n = layer.out_channels,
                        .k = examples * pixels,
                        .a = buffers_.windows,
                        .a_transposed = true,
                        .b = own_g,
                        .c = buffers_.gradients + layer.weights_offset,
                        .accumulate = first > 0});
      if (!needs_input) return;
      runner_.Multiply({.m = examples * pixels,
                        .n = windows.row_width(),
                        .k = layer.out_channels,
                        .a = own_g,
                        .b = buffers_.parameters + layer.weights_offset,
                        .b_transposed = true,
                        .c = buffers_.windows});
      runner_.Each(examples * InWidth(layer),
                   SumWindowsBody{windows, buffers_.windows, dx + first * InWidth(layer)});
    });
    return needs_input;
  }

  void ColumnSums(int64_t rows, const TrainerCudaLayer& layer, const float* g) {
    const ColumnSumsBody body = {g, rows, layer.out_channels, ColumnParts(rows),
                                 buffers_.column_partials};
    runner_.Blocks(body.blocks(), body);
    runner_.Each(layer.out_channels,
                 ColumnPartsBody{buffers_.column_partials, body.parts, layer.out_channels,
                                 buffers_.gradients + layer.bias_offset});
  }

  DropoutBody Dropout(size_t i, const float* x, float* y) const {
    const float rate = layers_[i].rate;
    return {x,
            y,
            buffers_.dropout_seed,
            0x9e3779b97f4a7c15u * (static_cast<uint64_t>(i) + 1),
            static_cast<uint32_t>(static_cast<double>(rate) * 4294967296.0),
            1.0f / (1.0f - rate)};
  }

  void Loss(int64_t rows) {
    const int64_t width = output_width();
    const bool squared = model_.loss == kTrainerCudaSquaredError;
    const int64_t terms = squared ? rows * width : rows;
    const float scale = model_.mean != 0 ? 1.0f / static_cast<float>(terms) : 1.0f;
    if (squared) {
      runner_.Each(terms, SquaredErrorBody{Outputs(true), buffers_.targets, scale, buffers_.losses,
                                           buffers_.output_gradients[0]});
    } else {
      const int clipped = model_.loss == kTrainerCudaClippedSoftmaxCrossEntropy;
      runner_.Blocks(rows,
                     SoftmaxCrossEntropyBody{Outputs(true), buffers_.labels, width, clipped, scale,
                                             buffers_.losses, buffers_.output_gradients[0]});
    }
    const int64_t blocks = SumBlocks(terms);
    runner_.Blocks(blocks, SumFloats{buffers_.losses, terms, blocks, buffers_.loss_partials});
    runner_.Blocks(1, SumDoubles{buffers_.loss_partials, blocks, 1, buffers_.sums});
  }

  // Adds the L2 term's gradient of layer i; returns how many partial sums of squares it left.
  int64_t AddL2(size_t i, double* partials) {
    const TrainerCudaLayer& layer = layers_[i];
    if (!HasWeights(layer) || layer.l2 == 0 || model_.l2 == 0.0f) return 0;
    const float* w = buffers_.parameters + layer.weights_offset;
    const int64_t size = WeightCount(layer);
    runner_.Each(size, AddL2Body{model_.l2, w, buffers_.gradients + layer.weights_offset});
    const int64_t blocks = SumBlocks(size);
    runner_.Blocks(blocks, SumSquares{w, size, blocks, partials});
    return blocks;
  }

  Runner& runner_;
  const TrainerCudaModel model_;
  const std::vector<TrainerCudaLayer> layers_;
  const size_t first_trained_;
  const StepBuffers buffers_;
  // Of each layer in the latest pass; a layer's output may be its input's memory.
  std::vector<const float*> x_;
  std::vector<const float*> y_;
};

}  // namespace trainer::cuda
