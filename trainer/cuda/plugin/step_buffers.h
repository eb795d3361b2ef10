// The device memory of a step, sized for the largest batch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "trainer/cuda/plugin/layer_facts.h"
#include "trainer/cuda/plugin/reduce.h"

namespace trainer::cuda {

struct StepBuffers {
  // What changes from step to step, and what a step gives.
  float* inputs = nullptr;    // (batch, input)
  int32_t* labels = nullptr;  // (batch)
  float* targets = nullptr;   // (batch, output)
  uint64_t* dropout_seed = nullptr;
  float* parameters = nullptr;  // the flat buffer
  float* gradients = nullptr;   // the flat buffer
  double* sums = nullptr;       // {loss, squares} as TrainerCudaSums

  // One for each layer; null where it has none of its own.
  std::vector<float*> outputs;
  std::vector<int32_t*> winners;  // max pooling

  float* output_gradients[2] = {};  // of the layer at hand and of the one before, in turns
  float* losses = nullptr;          // of each example, or of each element
  float* windows = nullptr;         // gathered, of some examples of a convolution
  float* column_partials = nullptr;
  double* loss_partials = nullptr;
  double* square_partials = nullptr;
};

// From a Runner (step.h), whose failure says what was not to be had.
template <typename Runner>
StepBuffers MakeStepBuffers(Runner& runner, const Layers& layers, int64_t parameter_count,
                            int64_t batch, bool training) {
  const auto floats = [&](int64_t count) { return runner.template Allocate<float>(count); };
  const auto count = static_cast<int64_t>(layers.size());
  StepBuffers to;
  to.outputs.resize(layers.size());
  to.winners.resize(layers.size());
  int64_t widest = 0;
  int64_t windows = 0;
  int64_t column_partials = 1;
  for (size_t i = 0; i < layers.size(); ++i) {
    const TrainerCudaLayer& layer = layers[i];
    const int64_t width = OutWidth(layer);
    widest = std::max({widest, width, InWidth(layer)});
    if (!IsPassedOn(layers, i)) to.outputs[i] = floats(batch * width);
    if (layer.kind == kTrainerCudaMaxPool) {
      to.winners[i] = runner.template Allocate<int32_t>(batch * width);
    }
    if (layer.kind == kTrainerCudaConv2d) {
      windows =
          std::max(windows, ExamplesAtATime(layer, batch) * WindowsOf(layer).window_elements());
    }
    if (HasWeights(layer)) {
      const int64_t rows = batch * layer.out_height * layer.out_width;
      column_partials = std::max(column_partials, ColumnParts(rows) * layer.out_channels);
    }
  }
  to.inputs = floats(batch * InWidth(layers.front()));
  to.parameters = floats(parameter_count);
  to.dropout_seed = runner.template Allocate<uint64_t>(1);
  if (windows > 0) to.windows = floats(windows);
  if (!training) return to;
  const int64_t outputs = batch * OutWidth(layers.back());
  to.labels = runner.template Allocate<int32_t>(batch);
  to.targets = floats(outputs);
  to.losses = floats(outputs);
  to.gradients = floats(parameter_count);
  to.sums = runner.template Allocate<double>(2);
  for (float*& g : to.output_gradients) g = floats(batch * widest);
  to.column_partials = floats(column_partials);
  to.loss_partials = runner.template Allocate<double>(kMaxSumBlocks);
  to.square_partials = runner.template Allocate<double>(kMaxSumBlocks * count);
  return to;
}

}  // namespace trainer::cuda
