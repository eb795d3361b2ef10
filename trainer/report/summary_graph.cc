#include "trainer/report/summary_graph.h"

#include <string>
#include <utility>
#include <vector>

#include "base/str_cat.h"

namespace trainer {
namespace {

constexpr int kFloat = 1;  // TensorFlow's DataType

class GraphBuilder {
 public:
  GraphBuilder(const Model& model, const GraphDevices& devices)
      : model_(model), devices_(devices) {}

  event::GraphDef Build() && {
    graph_.mutable_versions()->set_producer(27);
    Add("global_step", "VariableV2", {}, DeviceOf("global_step"));
    SetShape(Add("input", "Placeholder", {}), model_.spec().input_shape, true);
    std::string value = "input";
    const std::vector<Layer>& layers = model_.layers();
    for (size_t i = 0; i < layers.size(); ++i) value = AddLayer(layers[i], i, value);
    AddLoss(value);
    return std::move(graph_);
  }

 private:
  std::string DeviceOf(const std::string& variable) const {
    const auto found = devices_.variables.find(variable);
    return found == devices_.variables.end() ? devices_.default_device : found->second;
  }

  event::NodeDef* Add(const std::string& name, const std::string& op,
                      const std::vector<std::string>& inputs) {
    return Add(name, op, inputs, devices_.default_device);
  }
  event::NodeDef* Add(const std::string& name, const std::string& op,
                      const std::vector<std::string>& inputs, const std::string& device) {
    event::NodeDef* node = graph_.add_node();
    node->set_name(name);
    node->set_op(op);
    for (const std::string& input : inputs) node->add_input(input);
    node->set_device(device);
    return node;
  }

  static void SetShape(event::NodeDef* node, const std::vector<int64_t>& shape, bool batched) {
    (*node->mutable_attr())["dtype"].set_type(kFloat);
    event::AttrValue::Shape* out = (*node->mutable_attr())["shape"].mutable_shape();
    if (batched) out->add_dim()->set_size(-1);
    for (const int64_t size : shape) out->add_dim()->set_size(size);
  }

  // Adds a variable and returns its name.
  std::string AddVariable(int index) {
    const Variable& variable = model_.variables()[static_cast<size_t>(index)];
    SetShape(Add(variable.name, "VariableV2", {}, DeviceOf(variable.name)), variable.shape, false);
    if (variable.l2) {
      Add(variable.name + "/L2Loss", "L2Loss", {variable.name});
      l2_losses_.push_back(variable.name + "/L2Loss");
    }
    return variable.name;
  }

  // Adds a layer that takes `input`; returns the node that holds its output.
  std::string AddLayer(const Layer& layer, size_t index, const std::string& input) {
    const LayerSpec& spec = layer.spec;
    const std::string scope =
        spec.name.empty() ? base::StrCat(LayerKindName(spec.kind), "_", index + 1) : spec.name;
    const std::string device = spec.device.empty() ? devices_.default_device : spec.device;
    if (layer.weights >= 0) {
      const std::string product =
          base::StrCat(scope, spec.kind == LayerKind::kConv2d ? "/Conv2D" : "/MatMul");
      const std::string weights = AddVariable(layer.weights);
      Add(product, spec.kind == LayerKind::kConv2d ? "Conv2D" : "MatMul", {input, weights}, device);
      const std::string sum = base::StrCat(scope, "/BiasAdd");
      const std::string bias = AddVariable(layer.bias);
      Add(sum, "BiasAdd", {product, bias}, device);
      return sum;
    }
    const std::string op = OpOf(spec.kind);
    const std::string name = base::StrCat(scope, "/", op);
    Add(name, op, {input}, device);
    return name;
  }

  static std::string OpOf(LayerKind kind) {
    switch (kind) {
      case LayerKind::kMaxPool:
        return "MaxPool";
      case LayerKind::kRelu:
        return "Relu";
      case LayerKind::kSigmoid:
        return "Sigmoid";
      case LayerKind::kTanh:
        return "Tanh";
      case LayerKind::kDropout:
        return "Dropout";
      case LayerKind::kFlatten:
        return "Reshape";
      case LayerKind::kDense:
        return "MatMul";
      case LayerKind::kConv2d:
        return "Conv2D";
    }
    return "Identity";
  }

  void AddLoss(const std::string& output) {
    const ModelSpec& spec = model_.spec();
    const bool classes = spec.loss != LossKind::kMeanSquaredError;
    const std::string truth = classes ? "labels" : "targets";
    Add(truth, "Placeholder", {});
    const std::string each = classes ? "loss/xentropy" : "loss/squared_difference";
    Add(each, classes ? "SparseSoftmaxCrossEntropyWithLogits" : "SquaredDifference",
        {output, truth});
    const bool mean = spec.reduction == LossReduction::kMean;
    const std::string reduced = mean ? "loss/Mean" : "loss/Sum";
    Add(reduced, mean ? "Mean" : "Sum", {each});
    std::vector<std::string> terms = {reduced};
    terms.insert(terms.end(), l2_losses_.begin(), l2_losses_.end());
    if (terms.size() > 1) Add("loss/total", "AddN", terms);
  }

  const Model& model_;
  const GraphDevices& devices_;
  event::GraphDef graph_;
  std::vector<std::string> l2_losses_;
};

}  // namespace

event::GraphDef MakeGraph(const Model& model, const GraphDevices& devices) {
  return GraphBuilder(model, devices).Build();
}

}  // namespace trainer
