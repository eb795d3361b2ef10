// What a step asks of a layer and its model before it runs: sizes, and which layers are merged.
// PURE.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "trainer/cuda/plugin/windows.h"
#include "trainer/cuda/plugin_api.h"

namespace trainer::cuda {

using Layers = std::vector<TrainerCudaLayer>;

inline bool HasWeights(const TrainerCudaLayer& layer) {
  return layer.kind == kTrainerCudaDense || layer.kind == kTrainerCudaConv2d;
}

// Elements per example.
inline int64_t InWidth(const TrainerCudaLayer& layer) {
  return layer.in_height * layer.in_width * layer.in_channels;
}
inline int64_t OutWidth(const TrainerCudaLayer& layer) {
  return layer.out_height * layer.out_width * layer.out_channels;
}

// Elements of the weights of a dense layer or a convolution.
inline int64_t WeightCount(const TrainerCudaLayer& layer) {
  const bool dense = layer.kind == kTrainerCudaDense;
  const int64_t in = dense ? InWidth(layer) : layer.kernel * layer.kernel * layer.in_channels;
  return in * layer.out_channels;
}

inline Windows WindowsOf(const TrainerCudaLayer& layer) {
  return {layer.in_height, layer.in_width, layer.in_channels, layer.out_height, layer.out_width,
          layer.kernel,    layer.stride,   layer.pad_top,     layer.pad_left};
}

// Examples of a convolution whose windows are gathered at a time: a bound on memory (64 MiB), not
// on the size of a batch.
inline int64_t ExamplesAtATime(const TrainerCudaLayer& layer, int64_t rows) {
  constexpr int64_t kWindowElements = int64_t{16} << 20;
  return std::clamp<int64_t>(kWindowElements / WindowsOf(layer).window_elements(), 1, rows);
}

// Whether layer i is a ReLU that the layer before does.
inline bool IsFusedRelu(const Layers& layers, size_t i) {
  return i > 0 && i < layers.size() && layers[i].kind == kTrainerCudaRelu &&
         HasWeights(layers[i - 1]);
}

// Whether layer i's output is its input's memory in every pass.
inline bool IsPassedOn(const Layers& layers, size_t i) {
  return layers[i].kind == kTrainerCudaFlatten || IsFusedRelu(layers, i);
}

// The first layer with weights: below it nobody needs a gradient.
inline size_t FirstTrained(const Layers& layers) {
  size_t first = 0;
  while (first < layers.size() && !HasWeights(layers[first])) ++first;
  return first;
}

}  // namespace trainer::cuda
