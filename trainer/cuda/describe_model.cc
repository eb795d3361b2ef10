#include "trainer/cuda/describe_model.h"

#include <cstdint>

namespace trainer::cuda {
namespace {

TrainerCudaLayerKind KindOf(LayerKind kind) {
  switch (kind) {
    case LayerKind::kDense:
      return kTrainerCudaDense;
    case LayerKind::kConv2d:
      return kTrainerCudaConv2d;
    case LayerKind::kMaxPool:
      return kTrainerCudaMaxPool;
    case LayerKind::kRelu:
      return kTrainerCudaRelu;
    case LayerKind::kSigmoid:
      return kTrainerCudaSigmoid;
    case LayerKind::kTanh:
      return kTrainerCudaTanh;
    case LayerKind::kDropout:
      return kTrainerCudaDropout;
    case LayerKind::kFlatten:
      break;
  }
  return kTrainerCudaFlatten;
}

TrainerCudaLoss LossOf(LossKind kind) {
  switch (kind) {
    case LossKind::kClippedSoftmaxCrossEntropy:
      return kTrainerCudaClippedSoftmaxCrossEntropy;
    case LossKind::kMeanSquaredError:
      return kTrainerCudaSquaredError;
    case LossKind::kSoftmaxCrossEntropy:
      break;
  }
  return kTrainerCudaSoftmaxCrossEntropy;
}

// Shapes that are no image become 1 · 1 · all of their elements.
void SetShape(const std::vector<int64_t>& shape, int64_t* height, int64_t* width,
              int64_t* channels) {
  *height = shape.size() == 3 ? shape[0] : 1;
  *width = shape.size() == 3 ? shape[1] : 1;
  *channels = 1;
  for (const int64_t dimension : shape) *channels *= dimension;
  *channels /= *height * *width;
}

TrainerCudaLayer DescribeLayer(const Model& model, const Layer& layer) {
  TrainerCudaLayer to = {};
  to.kind = KindOf(layer.spec.kind);
  SetShape(layer.input_shape, &to.in_height, &to.in_width, &to.in_channels);
  SetShape(layer.output_shape, &to.out_height, &to.out_width, &to.out_channels);
  if (layer.spec.kind == LayerKind::kConv2d || layer.spec.kind == LayerKind::kMaxPool) {
    to.kernel = layer.spec.kernel;
    to.stride = layer.spec.stride;
    to.pad_top = ConvWindow(layer.input_shape[0], layer.spec).pad_before;
    to.pad_left = ConvWindow(layer.input_shape[1], layer.spec).pad_before;
  }
  to.rate = layer.spec.rate;
  if (layer.weights < 0) return to;
  const Variable& weights = model.variables()[static_cast<size_t>(layer.weights)];
  to.l2 = weights.l2 ? 1 : 0;
  to.weights_offset = weights.offset;
  to.bias_offset = model.variables()[static_cast<size_t>(layer.bias)].offset;
  return to;
}

}  // namespace

DescribedModel Describe(const Model& model) {
  DescribedModel described;
  for (const Layer& layer : model.layers()) described.layers.push_back(DescribeLayer(model, layer));
  described.rest.parameter_count = model.parameter_count();
  described.rest.loss = LossOf(model.spec().loss);
  described.rest.mean = model.spec().reduction == LossReduction::kMean ? 1 : 0;
  described.rest.l2 = model.spec().l2;
  return described;
}

TrainerCudaModel DescribedModel::Raw() const {
  TrainerCudaModel raw = rest;
  raw.layers = layers.data();
  raw.layer_count = static_cast<int64_t>(layers.size());
  return raw;
}

TrainerCudaBatch RawBatch(const Batch& batch) {
  return {.size = batch.size,
          .inputs = batch.inputs.data(),
          .labels = batch.labels.data(),
          .targets = batch.targets.data(),
          .dropout_seed = batch.dropout_seed};
}

}  // namespace trainer::cuda
