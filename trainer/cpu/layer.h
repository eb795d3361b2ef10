// A layer compiled for one batch size: what each thread of a program does in each phase of a step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "dnnl.hpp"
#include "trainer/model/model.h"

namespace trainer::cpu {

// The examples [begin, begin + rows) that one thread carries through the network.
struct Slice {
  int64_t begin = 0;
  int64_t rows = 0;
};

// What changes from step to step.
struct StepArgs {
  const float* inputs = nullptr;      // (batch, input_size)
  const float* parameters = nullptr;  // the flat buffer
  float* gradients = nullptr;         // the flat buffer
  bool training = false;              // dropout is on
  uint64_t dropout_seed = 0;
};

// Where a layer's values live, row-major over the whole batch.
struct Tensors {
  const float* input = nullptr;      // null = StepArgs::inputs
  float* output = nullptr;           // may be the input's memory, for elementwise layers
  float* input_gradient = nullptr;   // null = nobody needs it
  float* output_gradient = nullptr;  // null = no training
};

// Everything that a layer is compiled from.
struct LayerContext {
  const Model* model = nullptr;
  const Layer* layer = nullptr;
  int index = 0;              // of the layer
  int64_t batch = 0;          // examples
  std::vector<Slice> slices;  // one a thread; some may be empty
  Tensors tensors;
  bool training = false;
  bool bf16 = false;
  bool fused_relu = false;  // dense, conv2d: the next layer's ReLU is done here
  dnnl::engine engine;
  dnnl::stream stream;

  int64_t input_width() const;  // elements per example
  int64_t output_width() const;
  int threads() const { return static_cast<int>(slices.size()); }
  const float* Input(const StepArgs& args) const {
    return tensors.input != nullptr ? tensors.input : args.inputs;
  }
};

// Phases of a step, each run by all threads before the next begins: PrepareWeights; Forward and
// Backward of the thread's own examples; WeightGradients of the thread's own part of the weights.
class CpuLayer {
 public:
  virtual ~CpuLayer() = default;

  // Makes what the forward pass needs of the weights besides their f32 values.
  virtual void PrepareWeights(const StepArgs& /*args*/, int /*thread*/) {}
  virtual bool prepares_weights() const { return false; }

  virtual void Forward(const StepArgs& args, int thread) = 0;
  // Reads output_gradient (and may overwrite it), writes input_gradient where there is one.
  virtual void Backward(const StepArgs& args, int thread) = 0;

  // Writes the thread's part of the layer's gradients, L2 included. Returns Σ w² over the part of
  // the weights that takes part in the L2 term.
  virtual double WeightGradients(const StepArgs& /*args*/, int /*thread*/) { return 0.0; }
};

absl::StatusOr<std::unique_ptr<CpuLayer>> MakeDense(const LayerContext& context);
absl::StatusOr<std::unique_ptr<CpuLayer>> MakeConv2d(const LayerContext& context);
absl::StatusOr<std::unique_ptr<CpuLayer>> MakeMaxPool(const LayerContext& context);
// relu, sigmoid, tanh, dropout. Flatten and fused layers need no code: their output is their input.
absl::StatusOr<std::unique_ptr<CpuLayer>> MakeElementwise(const LayerContext& context);

// [begin, end) of `count` things that thread `thread` of `threads` takes care of.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};
Range PartOf(int64_t count, int thread, int threads);

}  // namespace trainer::cpu
