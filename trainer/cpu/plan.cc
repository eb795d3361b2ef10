// Lays out buffers, builds layers, and runs the phases.
#include "trainer/cpu/plan.h"

#include <algorithm>

#include "base/status_macros.h"
#include "trainer/cpu/kernels.h"
#include "trainer/cpu/onednn.h"
#include "trainer/model/flush_denormals.h"

namespace trainer::cpu {
namespace {

int64_t Elements(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t dimension : shape) count *= dimension;
  return count;
}

bool HasWeights(LayerKind kind) { return kind == LayerKind::kDense || kind == LayerKind::kConv2d; }

// Layers whose backward pass does not look at their output, so that the next one may overwrite it.
bool OutputMayBeOverwritten(LayerKind kind) {
  return HasWeights(kind) || kind == LayerKind::kMaxPool;
}

bool KeepsShape(LayerKind kind) {
  return kind == LayerKind::kRelu || kind == LayerKind::kSigmoid || kind == LayerKind::kTanh ||
         kind == LayerKind::kDropout;
}

absl::StatusOr<std::unique_ptr<CpuLayer>> MakeLayer(const LayerContext& context) {
  switch (context.layer->spec.kind) {
    case LayerKind::kDense:
      return MakeDense(context);
    case LayerKind::kConv2d:
      return MakeConv2d(context);
    case LayerKind::kMaxPool:
      return MakeMaxPool(context);
    default:
      return MakeElementwise(context);
  }
}

std::vector<Slice> MakeSlices(int64_t batch, int threads, int team_size) {
  std::vector<Slice> slices(team_size);
  for (int t = 0; t < threads; ++t) {
    const Range part = PartOf(batch, t, threads);
    slices[t] = {.begin = part.begin, .rows = part.size()};
  }
  return slices;
}

}  // namespace

int64_t LayerContext::input_width() const { return Elements(layer->input_shape); }
int64_t LayerContext::output_width() const { return Elements(layer->output_shape); }

Range PartOf(int64_t count, int thread, int threads) {
  return {count * thread / threads, count * (thread + 1) / threads};
}

int UsefulThreads(const Model& model, int64_t batch, int threads) {
  constexpr int64_t kProductsPerThread = 500000;  // some 10 µs of work: a start costs about one
  int64_t products = 0;
  for (const Layer& layer : model.layers()) {
    if (layer.weights < 0) continue;
    const int64_t pixels = Elements(layer.output_shape) / layer.spec.units;
    products += batch * pixels * model.variables()[layer.weights].size;
  }
  const int64_t useful = std::min(batch, products / kProductsPerThread);
  return static_cast<int>(std::clamp<int64_t>(useful, 1, threads));
}

Buffers::Buffers(const Model& model, int64_t batch, bool training)
    : tensors_(model.layers().size()),
      fuses_relu_(model.layers().size()),
      left_out_(model.layers().size()),
      scratch_(batch * model.output_size()) {
  PlaceOutputs(model, batch);
  if (training) PlaceGradients(model, batch);
}

void Buffers::PlaceOutputs(const Model& model, int64_t batch) {
  const std::vector<Layer>& layers = model.layers();
  const float* input = nullptr;  // null = the batch's own
  float* writable = nullptr;     // the same memory, where it is ours and may be overwritten
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerKind kind = layers[i].spec.kind;
    tensors_[i].input = input;
    const bool after_weights = i > 0 && HasWeights(layers[i - 1].spec.kind);
    if (kind == LayerKind::kRelu && after_weights) {
      fuses_relu_[i - 1] = true;
      left_out_[i] = true;
      writable = nullptr;  // the layer before reads its output again to undo the ReLU
    }
    if (kind == LayerKind::kFlatten) left_out_[i] = true;
    if (left_out_[i]) {
      tensors_[i].output = const_cast<float*>(input);  // only passed on
      continue;
    }
    const bool in_place = KeepsShape(kind) && writable != nullptr;
    tensors_[i].output = in_place ? writable : Allocate(batch * Elements(layers[i].output_shape));
    writable = OutputMayBeOverwritten(kind) ? tensors_[i].output : nullptr;
    input = tensors_[i].output;
  }
  final_output_ = tensors_.back().output;
}

void Buffers::PlaceGradients(const Model& model, int64_t batch) {
  const std::vector<Layer>& layers = model.layers();
  final_gradient_ = Allocate(batch * model.output_size());
  float* gradient = final_gradient_;
  size_t first_trained = 0;
  while (first_trained < layers.size() && layers[first_trained].weights < 0) ++first_trained;
  // Below the first layer with weights nobody needs a gradient.
  for (size_t i = layers.size(); i-- > first_trained;) {
    tensors_[i].output_gradient = gradient;
    if (i == first_trained) break;
    const LayerKind kind = layers[i].spec.kind;
    const bool in_place = KeepsShape(kind) || kind == LayerKind::kFlatten;
    if (!in_place) gradient = Allocate(batch * Elements(layers[i].input_shape));
    tensors_[i].input_gradient = gradient;
  }
}

float* Buffers::Allocate(int64_t size) {
  memory_.emplace_back(size);
  return memory_.back().data();
}

absl::StatusOr<std::unique_ptr<Plan>> Plan::Create(const Model& model,
                                                   const ProgramOptions& options,
                                                   const dnnl::engine& engine, Buffers* buffers,
                                                   int64_t batch, int team_size) {
  std::unique_ptr<Plan> plan(new Plan(model, buffers));
  plan->slices_ = MakeSlices(batch, UsefulThreads(model, batch, team_size), team_size);
  plan->sums_.resize(team_size);
  const OneThread one_thread;
  LayerContext context;
  context.model = &model;
  context.batch = batch;
  context.slices = plan->slices_;
  context.training = options.training;
  context.bf16 = options.compute_dtype == ComputeDtype::kBf16;
  context.engine = engine;
  RETURN_IF_ERROR(Guarded("a stream", [&] { context.stream = dnnl::stream(engine); }));
  for (size_t i = 0; i < model.layers().size(); ++i) {
    if (buffers->IsLeftOut(i)) continue;
    context.layer = &model.layers()[i];
    context.index = static_cast<int>(i);
    context.tensors = buffers->TensorsOf(i);
    context.fused_relu = buffers->FusesRelu(i);
    ASSIGN_OR_RETURN(std::unique_ptr<CpuLayer> layer, MakeLayer(context));
    plan->prepares_weights_ |= layer->prepares_weights();
    plan->layers_.push_back(std::move(layer));
  }
  return plan;
}

void Plan::PrepareWeights(const StepArgs& args, Team& team) {
  if (!prepares_weights_) return;
  team.Run([&](int thread) {
    for (const auto& layer : layers_) layer->PrepareWeights(args, thread);
  });
}

void Plan::Forward(const StepArgs& args, Team& team) {
  PrepareWeights(args, team);
  team.Run([&](int thread) {
    const OneThread one_thread;
    const FlushDenormals flush;
    for (const auto& layer : layers_) layer->Forward(args, thread);
  });
}

Plan::Sums Plan::Gradients(const Batch& batch, const StepArgs& args, Team& team) {
  PrepareWeights(args, team);
  team.Run([&](int thread) {
    const OneThread one_thread;
    const FlushDenormals flush;
    for (const auto& layer : layers_) layer->Forward(args, thread);
    sums_[thread] = {.loss = Loss(batch, slices_[thread]), .squares = 0.0};
    for (size_t i = layers_.size(); i-- > 0;) layers_[i]->Backward(args, thread);
  });
  team.Run([&](int thread) {
    const OneThread one_thread;
    const FlushDenormals flush;
    for (const auto& layer : layers_) {
      sums_[thread].squares += layer->WeightGradients(args, thread);
    }
  });
  Sums total;
  for (const Sums& sums : sums_) {
    total.loss += sums.loss;
    total.squares += sums.squares;
  }
  return total;
}

double Plan::Loss(const Batch& batch, Slice slice) const {
  if (slice.rows == 0) return 0.0;
  const int64_t width = model_.output_size();
  const int64_t begin = slice.begin * width;
  const float* outputs = buffers_.final_output() + begin;
  float* gradient = buffers_.final_gradient() + begin;
  const bool mean = model_.spec().reduction == LossReduction::kMean;
  const float examples = static_cast<float>(batch.size);
  if (model_.spec().loss == LossKind::kMeanSquaredError) {
    const float scale = mean ? 1.0f / (examples * static_cast<float>(width)) : 1.0f;
    return SquaredError(outputs, batch.targets.data() + begin, slice.rows * width, scale, gradient);
  }
  const bool clipped = model_.spec().loss == LossKind::kClippedSoftmaxCrossEntropy;
  return SoftmaxCrossEntropy(outputs, batch.labels.data() + slice.begin, slice.rows, width, clipped,
                             mean ? 1.0f / examples : 1.0f, buffers_.scratch() + begin, gradient);
}

}  // namespace trainer::cpu
