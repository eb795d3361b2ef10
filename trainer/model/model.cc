// Checks a ModelSpec, infers shapes, lays the variables out in one flat buffer and initialises
// them.
#include "trainer/model/model.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/exit_codes.h"
#include "base/str_cat.h"
#include "trainer/model/random.h"

namespace trainer {
namespace {

// Far above what fits in memory, far below where the products of two sizes overflow.
constexpr int64_t kMaxElements = int64_t{1} << 31;
// A wider window would be a slip: no image here is that large.
constexpr int64_t kMaxWindow = 4096;

std::string LayerLabel(const LayerSpec& spec, size_t index) {
  const std::string place = base::StrCat("layer ", index + 1, " (", LayerKindName(spec.kind));
  return spec.name.empty() ? base::StrCat(place, ")") : base::StrCat(place, " '", spec.name, "')");
}

std::string ShapeName(const std::vector<int64_t>& shape) {
  return base::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Product of a shape, or -1 where it exceeds kMaxElements or a dimension is not positive.
int64_t ElementCount(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t dimension : shape) {
    if (dimension <= 0 || dimension > kMaxElements / count) return -1;
    count *= dimension;
  }
  return count;
}

bool InitializerIsValid(const Initializer& init) {
  return std::isfinite(init.value) && std::isfinite(init.stddev) && init.stddev >= 0.0f;
}

// Checks one layer after another and resolves shapes; goes on after a problem to report them all.
class Resolver {
 public:
  explicit Resolver(const ModelSpec& spec) : spec_(spec) {}

  void Resolve() {
    CheckInput();
    for (size_t i = 0; i < spec_.layers.size(); ++i) ResolveLayer(spec_.layers[i], i);
    CheckOutput();
  }

  const std::vector<std::string>& problems() const { return problems_; }
  std::vector<Layer> TakeLayers() { return std::move(layers_); }
  std::vector<Variable> TakeVariables() { return std::move(variables_); }
  int64_t parameter_count() const { return parameter_count_; }
  const std::vector<int64_t>& output_shape() const { return shape_; }

 private:
  void Problem(std::string_view what) { problems_.emplace_back(what); }

  void CheckInput() {
    shape_ = spec_.input_shape;
    if (shape_.empty() || ElementCount(shape_) < 0) {
      Problem(base::StrCat("input_shape ", ShapeName(shape_),
                           " must hold positive sizes, e.g. [784] or [28, 28, 1]"));
      shape_known_ = false;
    }
    if (spec_.layers.empty()) Problem("the model has no layers");
    if (!(spec_.l2 >= 0.0f) || !std::isfinite(spec_.l2)) {
      Problem(base::StrCat("l2 must be a number >= 0, not ", spec_.l2));
    }
  }

  void ResolveLayer(const LayerSpec& spec, size_t index) {
    const std::string label = LayerLabel(spec, index);
    const size_t problems_before = problems_.size();
    CheckSettings(spec, label);
    Layer layer;
    layer.spec = spec;
    layer.input_shape = shape_;
    if (shape_known_ && problems_.size() == problems_before) {
      shape_known_ = InferShape(layer, label);
      shape_ = layer.output_shape;
    } else {
      shape_known_ = false;  // sizes after a wrong layer would only repeat its problem
    }
    layers_.push_back(std::move(layer));
  }

  void CheckSettings(const LayerSpec& spec, const std::string& label) {
    if (!spec.name.empty() && !layer_names_.insert(spec.name).second) {
      Problem(base::StrCat(label, ": the name is taken by an earlier layer"));
    }
    const bool has_window = spec.kind == LayerKind::kConv2d || spec.kind == LayerKind::kMaxPool;
    const bool has_weights = spec.kind == LayerKind::kDense || spec.kind == LayerKind::kConv2d;
    if (has_weights && (spec.units <= 0 || spec.units > kMaxElements)) {
      Problem(base::StrCat(label, ": units must be at least 1, not ", spec.units));
    }
    if (has_window && (spec.kernel <= 0 || spec.kernel > kMaxWindow)) {
      Problem(base::StrCat(label, ": kernel must be 1 to 4096, not ", spec.kernel));
    }
    if (has_window && (spec.stride <= 0 || spec.stride > kMaxWindow)) {
      Problem(base::StrCat(label, ": stride must be 1 to 4096, not ", spec.stride));
    }
    if (spec.kind == LayerKind::kDropout && !(spec.rate >= 0.0f && spec.rate < 1.0f)) {
      Problem(base::StrCat(label, ": rate must be in [0, 1), not ", spec.rate));
    }
    if (has_weights &&
        !(InitializerIsValid(spec.weights_init) && InitializerIsValid(spec.bias_init))) {
      Problem(base::StrCat(label, ": initial values must be finite and stddev >= 0"));
    }
  }

  // Sets output_shape and adds the variables. False where the input does not fit.
  bool InferShape(Layer& layer, const std::string& label) {
    switch (layer.spec.kind) {
      case LayerKind::kDense:
        return InferDense(layer, label);
      case LayerKind::kConv2d:
      case LayerKind::kMaxPool:
        return InferWindow(layer, label);
      case LayerKind::kFlatten:
        layer.output_shape = {ElementCount(layer.input_shape)};
        return true;
      case LayerKind::kRelu:
      case LayerKind::kSigmoid:
      case LayerKind::kTanh:
      case LayerKind::kDropout:
        layer.output_shape = layer.input_shape;
        return true;
    }
    return false;
  }

  bool InferDense(Layer& layer, const std::string& label) {
    if (layer.input_shape.size() != 1) {
      Problem(base::StrCat(label, ": needs a flat input but gets ", ShapeName(layer.input_shape),
                           "; put a flatten layer before it"));
      return false;
    }
    const int64_t inputs = layer.input_shape[0];
    const int64_t units = layer.spec.units;
    if (layer.spec.vector_weights && units != 1) {
      Problem(base::StrCat(label, ": vector_weights needs units 1, not ", units));
      return false;
    }
    layer.output_shape = {units};
    std::vector<int64_t> shape = {inputs, units};
    if (layer.spec.vector_weights) shape = {inputs};
    return AddVariables(layer, label, std::move(shape));
  }

  bool InferWindow(Layer& layer, const std::string& label) {
    if (layer.input_shape.size() != 3) {
      Problem(base::StrCat(label, ": needs an image [height, width, channels] but gets ",
                           ShapeName(layer.input_shape)));
      return false;
    }
    const LayerSpec& spec = layer.spec;
    const int64_t channels = layer.input_shape[2];
    const bool is_conv = spec.kind == LayerKind::kConv2d;
    layer.output_shape = {0, 0, is_conv ? spec.units : channels};
    for (int axis = 0; axis < 2; ++axis) {
      const int64_t extent = layer.input_shape[axis];
      layer.output_shape[axis] = ConvWindow(extent, spec).output;
      if (layer.output_shape[axis] <= 0) {
        Problem(base::StrCat(label, ": kernel ", spec.kernel, " is larger than the image ",
                             ShapeName(layer.input_shape), "; use same padding"));
        return false;
      }
    }
    if (ElementCount(layer.output_shape) < 0) {
      Problem(base::StrCat(label, ": output ", ShapeName(layer.output_shape), " is too large"));
      return false;
    }
    if (!is_conv) return true;
    return AddVariables(layer, label, {spec.kernel, spec.kernel, channels, spec.units});
  }

  bool AddVariables(Layer& layer, const std::string& label, std::vector<int64_t> weights_shape) {
    const LayerSpec& spec = layer.spec;
    const std::string prefix = spec.name.empty() ? "" : base::StrCat(spec.name, "/");
    const int64_t weights_size = ElementCount(weights_shape);
    if (weights_size < 0 || parameter_count_ + weights_size + spec.units > kMaxElements) {
      Problem(base::StrCat(label, ": weights ", ShapeName(weights_shape), " are too large"));
      return false;
    }
    layer.weights = AddVariable({.name = prefix + spec.weights_name,
                                 .shape = std::move(weights_shape),
                                 .init = spec.weights_init,
                                 .l2 = spec.l2,
                                 .offset = 0,
                                 .size = weights_size},
                                label);
    layer.bias = AddVariable({.name = prefix + spec.bias_name,
                              .shape = {spec.units},
                              .init = spec.bias_init,
                              .l2 = false,
                              .offset = 0,
                              .size = spec.units},
                             label);
    return true;
  }

  int AddVariable(Variable variable, const std::string& label) {
    if (!variable_names_.insert(variable.name).second) {
      Problem(base::StrCat(label, ": a variable named '", variable.name,
                           "' exists already; give the layer a name of its own"));
    }
    variable.offset = parameter_count_;
    parameter_count_ += variable.size;
    variables_.push_back(std::move(variable));
    return static_cast<int>(variables_.size()) - 1;
  }

  void CheckOutput() {
    if (!shape_known_ || !problems_.empty()) return;
    if (variables_.empty()) Problem("the model has nothing to train: no dense or conv2d layer");
    if (shape_.size() != 1) {
      Problem(base::StrCat("the last layer must give a flat output, not ", ShapeName(shape_),
                           "; end with flatten or dense"));
    } else if (spec_.loss != LossKind::kMeanSquaredError && shape_[0] < 2) {
      Problem("cross-entropy needs at least 2 outputs; use loss mse for a single number");
    }
  }

  const ModelSpec& spec_;
  std::vector<std::string> problems_;
  std::vector<int64_t> shape_;  // output of the layer before
  bool shape_known_ = true;
  std::vector<Layer> layers_;
  std::vector<Variable> variables_;
  std::set<std::string> layer_names_;
  std::set<std::string> variable_names_;
  int64_t parameter_count_ = 0;
};

void Fill(const Initializer& init, RandomStream stream, std::span<float> values) {
  for (float& value : values) {
    switch (init.kind) {
      case Initializer::Kind::kConstant:
        value = init.value;
        break;
      case Initializer::Kind::kNormal:
        value = static_cast<float>(stream.Normal() * init.stddev);
        break;
      case Initializer::Kind::kTruncatedNormal:
        value = static_cast<float>(stream.TruncatedNormal() * init.stddev);
        break;
    }
  }
}

}  // namespace

std::string_view LayerKindName(LayerKind kind) {
  switch (kind) {
    case LayerKind::kDense:
      return "dense";
    case LayerKind::kConv2d:
      return "conv2d";
    case LayerKind::kMaxPool:
      return "maxpool";
    case LayerKind::kRelu:
      return "relu";
    case LayerKind::kSigmoid:
      return "sigmoid";
    case LayerKind::kTanh:
      return "tanh";
    case LayerKind::kDropout:
      return "dropout";
    case LayerKind::kFlatten:
      return "flatten";
  }
  return "unknown";
}

WindowExtent ConvWindow(int64_t input, const LayerSpec& spec) {
  if (!spec.same_padding) {
    return {.output = (input - spec.kernel) / spec.stride + (input >= spec.kernel ? 1 : 0),
            .pad_before = 0,
            .pad_after = 0};
  }
  const int64_t output = (input + spec.stride - 1) / spec.stride;
  const int64_t needed = (output - 1) * spec.stride + spec.kernel - input;
  const int64_t padding = needed > 0 ? needed : 0;
  return {.output = output, .pad_before = padding / 2, .pad_after = padding - padding / 2};
}

absl::StatusOr<Model> Model::Create(ModelSpec spec) {
  Resolver resolver(spec);
  resolver.Resolve();
  if (!resolver.problems().empty()) {
    return base::UsageError(base::StrCat("model '", spec.name, "' is wrong:\n  ",
                                         absl::StrJoin(resolver.problems(), "\n  ")));
  }
  Model model;
  model.layers_ = resolver.TakeLayers();
  model.variables_ = resolver.TakeVariables();
  model.parameter_count_ = resolver.parameter_count();
  model.input_size_ = ElementCount(spec.input_shape);
  model.output_size_ = ElementCount(resolver.output_shape());
  model.spec_ = std::move(spec);
  return model;
}

void Model::Initialize(uint64_t seed, std::span<float> flat) const {
  for (const Variable& variable : variables_) {
    Fill(variable.init, RandomStream(seed, variable.name),
         flat.subspan(static_cast<size_t>(variable.offset), static_cast<size_t>(variable.size)));
  }
}

}  // namespace trainer
