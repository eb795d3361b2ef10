// What a model is: layers, variables with names and shapes in one flat f32 buffer, and a loss.
// PURE: values only; arithmetic lives behind backend.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trainer {

// How a variable starts. kTruncatedNormal redraws values beyond two standard deviations, as
// TensorFlow's initialiser does.
struct Initializer {
  enum class Kind { kConstant, kNormal, kTruncatedNormal };
  Kind kind = Kind::kConstant;
  float value = 0.0f;   // kConstant
  float stddev = 0.0f;  // kNormal, kTruncatedNormal; mean is 0
};

// A trainable variable: a named, row-major f32 view of the flat parameter buffer.
struct Variable {
  std::string name;            // e.g. "layer1/weights"
  std::vector<int64_t> shape;  // empty = scalar
  Initializer init;
  bool l2 = false;     // takes part in the L2 term
  int64_t offset = 0;  // first element in the flat buffer
  int64_t size = 0;    // number of elements
};

enum class LayerKind { kDense, kConv2d, kMaxPool, kRelu, kSigmoid, kTanh, kDropout, kFlatten };

// One layer. Shapes are per example; images are NHWC (height, width, channels).
struct LayerSpec {
  LayerKind kind = LayerKind::kDense;
  std::string name;          // prefix of its variables, "" = none; unique
  int64_t units = 0;         // dense: outputs; conv2d: filters
  int64_t kernel = 0;        // conv2d, maxpool: window height = width
  int64_t stride = 1;        // conv2d, maxpool
  bool same_padding = true;  // conv2d, maxpool: SAME (TensorFlow's rule) or VALID
  float rate = 0.0f;         // dropout: probability of dropping
  Initializer weights_init;
  Initializer bias_init;
  bool l2 = false;                       // the weights take part in the L2 term
  std::string weights_name = "weights";  // variable = name + "/" + weights_name, or it alone where
                                         // the layer has no name
  std::string bias_name = "biases";
  bool vector_weights = false;  // dense with one unit: weights of shape {inputs}, not {inputs, 1}
  std::string device;           // "/cpu:0", "/gpu:1"; "" = the task's own
};

// "dense", "conv2d", … as YAML and messages write it.
std::string_view LayerKindName(LayerKind kind);

// How a conv2d's or maxpool's window moves along one axis of `input` elements (TensorFlow's rule:
// with SAME padding the odd element goes after). output <= 0: the window does not fit.
struct WindowExtent {
  int64_t output = 0;
  int64_t pad_before = 0;
  int64_t pad_after = 0;
};
WindowExtent ConvWindow(int64_t input, const LayerSpec& spec);

enum class LossKind {
  kSoftmaxCrossEntropy,         // from logits, labels as class indexes
  kClippedSoftmaxCrossEntropy,  // -Σ y·log(clip(softmax, 1e-10, 1)): no gradient where clipped
  kMeanSquaredError,            // squared error against float targets; kMean: over N · outputs
};
enum class LossReduction { kMean, kSum };

// A model as the user wrote it (preset or YAML). Not yet checked.
struct ModelSpec {
  std::string name;
  std::vector<int64_t> input_shape;  // per example: {784} or {28, 28, 1} or {1}
  std::vector<LayerSpec> layers;
  LossKind loss = LossKind::kSoftmaxCrossEntropy;
  LossReduction reduction = LossReduction::kMean;
  float l2 = 0.0f;  // adds l2 · Σ w²/2 over the variables with l2 = true
};

// A layer with its shapes and variables resolved.
struct Layer {
  LayerSpec spec;
  std::vector<int64_t> input_shape;   // per example
  std::vector<int64_t> output_shape;  // per example
  int weights = -1;                   // index into Model::variables(), -1 = none
  int bias = -1;
};

// A checked model. Immutable, so it can be shared between threads.
class Model {
 public:
  // Checks the spec and lays out the variables in layer order (weights before bias).
  // kInvalidArgument lists every problem, each with the layer's name.
  static absl::StatusOr<Model> Create(ModelSpec spec);

  const ModelSpec& spec() const { return spec_; }
  const std::vector<Layer>& layers() const { return layers_; }
  const std::vector<Variable>& variables() const { return variables_; }
  int64_t parameter_count() const { return parameter_count_; }  // f32 elements in the flat buffer
  int64_t input_size() const { return input_size_; }            // elements per example
  int64_t output_size() const { return output_size_; }          // elements per example

  // Fills `flat` (parameter_count() elements) from the initialisers. Deterministic by seed and
  // independent of the order in which variables are drawn: each has its own stream.
  void Initialize(uint64_t seed, std::span<float> flat) const;

 private:
  ModelSpec spec_;
  std::vector<Layer> layers_;
  std::vector<Variable> variables_;
  int64_t parameter_count_ = 0;
  int64_t input_size_ = 0;
  int64_t output_size_ = 0;
};

}  // namespace trainer
