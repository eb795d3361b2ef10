// EncodeOnnx: the layers of a model as ONNX operators (onnx/docs/Operators.md, opset 13). Our
// images are NHWC and ONNX's NCHW: a Transpose goes before the first image operator and after the
// last.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "trainer/checkpoint/export.h"
#include "trainer/checkpoint/export_onnx.pb.h"

namespace trainer {
namespace {

constexpr int kIrVersion = 8;
constexpr int kOpset = 13;
constexpr int kFloat = 1;  // TensorProto.DataType
constexpr int kInt64 = 7;
constexpr int kIntsAttribute = 7;  // AttributeProto.AttributeType

class OnnxBuilder {
 public:
  OnnxBuilder(const Model& model, std::span<const float> parameters)
      : model_(model), parameters_(parameters) {}

  std::string Build(bool softmax) && {
    proto_.set_ir_version(kIrVersion);
    proto_.set_producer_name("trainyard");
    proto_.add_opset_import()->set_version(kOpset);
    graph_ = proto_.mutable_graph();
    graph_->set_name(model_.spec().name.empty() ? "model" : model_.spec().name);
    SetType("input", model_.spec().input_shape, graph_->add_input());
    value_ = "input";
    for (const Layer& layer : model_.layers()) AddLayer(layer);
    ToNhwc();
    if (model_.layers().empty() || model_.layers().back().output_shape.size() != 1) {
      Reshape({-1, model_.output_size()});
    }
    if (softmax) Append("Softmax", {});
    Append("Identity", {}, "output");
    SetType("output", {model_.output_size()}, graph_->add_output());
    return proto_.SerializeAsString();
  }

 private:
  static void SetType(const std::string& name, const std::vector<int64_t>& shape,
                      onnx::ValueInfoProto* out) {
    out->set_name(name);
    onnx::TypeProto::Tensor* type = out->mutable_type()->mutable_tensor_type();
    type->set_elem_type(kFloat);
    type->mutable_shape()->add_dim()->set_dim_param("N");
    for (const int64_t size : shape) type->mutable_shape()->add_dim()->set_dim_value(size);
  }

  // Appends an operator on the value so far, with other inputs after it; its output is the value
  // from then on.
  onnx::NodeProto* Append(const std::string& op, const std::vector<std::string>& other_inputs,
                          std::string output = "") {
    if (output.empty()) output = base::StrCat("value_", graph_->node_size() + 1);
    onnx::NodeProto* node = graph_->add_node();
    node->set_name(base::StrCat(op, "_", graph_->node_size()));
    node->set_op_type(op);
    node->add_input(value_);
    for (const std::string& input : other_inputs) node->add_input(input);
    node->add_output(output);
    value_ = std::move(output);
    return node;
  }

  static void SetInts(const std::string& name, const std::vector<int64_t>& values,
                      onnx::NodeProto* node) {
    onnx::AttributeProto* attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(kIntsAttribute);
    for (const int64_t value : values) attribute->add_ints(value);
  }

  // Adds a constant tensor and returns its name.
  std::string AddTensor(const std::string& name, const std::vector<int64_t>& dims, int type,
                        std::string_view bytes) {
    onnx::TensorProto* tensor = graph_->add_initializer();
    tensor->set_name(name);
    for (const int64_t dim : dims) tensor->add_dims(dim);
    tensor->set_data_type(type);
    tensor->set_raw_data(std::string(bytes));
    return name;
  }

  std::span<const float> Values(const Variable& variable) const {
    return parameters_.subspan(static_cast<size_t>(variable.offset),
                               static_cast<size_t>(variable.size));
  }

  std::string AddFloats(const std::string& name, const std::vector<int64_t>& dims,
                        std::span<const float> values) {
    return AddTensor(name, dims, kFloat,
                     {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }

  void Reshape(const std::vector<int64_t>& shape) {
    const std::string name = base::StrCat("shape_", graph_->node_size() + 1);
    AddTensor(name, {static_cast<int64_t>(shape.size())}, kInt64,
              {reinterpret_cast<const char*>(shape.data()), shape.size() * sizeof(int64_t)});
    Append("Reshape", {name});
  }

  void Transpose(const std::vector<int64_t>& permutation) {
    SetInts("perm", permutation, Append("Transpose", {}));
  }
  void ToNchw() {
    if (!is_nchw_) Transpose({0, 3, 1, 2});
    is_nchw_ = true;
  }
  void ToNhwc() {
    if (is_nchw_) Transpose({0, 2, 3, 1});
    is_nchw_ = false;
  }

  void AddLayer(const Layer& layer) {
    switch (layer.spec.kind) {
      case LayerKind::kDense:
        return AddDense(layer);
      case LayerKind::kConv2d:
        return AddConv(layer);
      case LayerKind::kMaxPool:
        ToNchw();
        return SetWindow(layer, Append("MaxPool", {}));
      case LayerKind::kRelu:
        Append("Relu", {});
        return;
      case LayerKind::kSigmoid:
        Append("Sigmoid", {});
        return;
      case LayerKind::kTanh:
        Append("Tanh", {});
        return;
      case LayerKind::kDropout:
        return;  // off outside training
      case LayerKind::kFlatten:
        // The order of the weights that follow is that of NHWC.
        ToNhwc();
        return Reshape({-1, layer.output_shape[0]});
    }
  }

  // value · weights (inputs, units) + bias.
  void AddDense(const Layer& layer) {
    const Variable& weights = model_.variables()[static_cast<size_t>(layer.weights)];
    const Variable& bias = model_.variables()[static_cast<size_t>(layer.bias)];
    const std::string w =
        AddFloats(weights.name, {layer.input_shape[0], layer.spec.units}, Values(weights));
    const std::string b = AddFloats(bias.name, bias.shape, Values(bias));
    Append("Gemm", {w, b});
  }

  // Weights (height, width, inputs, filters) become (filters, inputs, height, width).
  void AddConv(const Layer& layer) {
    const Variable& weights = model_.variables()[static_cast<size_t>(layer.weights)];
    const Variable& bias = model_.variables()[static_cast<size_t>(layer.bias)];
    const auto area = static_cast<size_t>(weights.shape[0] * weights.shape[1]);
    const auto inputs = static_cast<size_t>(weights.shape[2]);
    const auto filters = static_cast<size_t>(weights.shape[3]);
    const std::span<const float> values = Values(weights);
    std::vector<float> turned(values.size());
    for (size_t at = 0; at < area; ++at) {
      for (size_t in = 0; in < inputs; ++in) {
        for (size_t out = 0; out < filters; ++out) {
          turned[(out * inputs + in) * area + at] = values[(at * inputs + in) * filters + out];
        }
      }
    }
    ToNchw();
    const std::string w =
        AddFloats(weights.name,
                  {weights.shape[3], weights.shape[2], weights.shape[0], weights.shape[1]}, turned);
    const std::string b = AddFloats(bias.name, bias.shape, Values(bias));
    SetWindow(layer, Append("Conv", {w, b}));
  }

  static void SetWindow(const Layer& layer, onnx::NodeProto* node) {
    const LayerSpec& spec = layer.spec;
    const WindowExtent rows = ConvWindow(layer.input_shape[0], spec);
    const WindowExtent columns = ConvWindow(layer.input_shape[1], spec);
    SetInts("kernel_shape", {spec.kernel, spec.kernel}, node);
    SetInts("strides", {spec.stride, spec.stride}, node);
    SetInts("pads", {rows.pad_before, columns.pad_before, rows.pad_after, columns.pad_after}, node);
  }

  const Model& model_;
  const std::span<const float> parameters_;
  onnx::ModelProto proto_;
  onnx::GraphProto* graph_ = nullptr;
  std::string value_;     // name of the output of the layers so far
  bool is_nchw_ = false;  // its layout, if it is an image
};

}  // namespace

std::string EncodeOnnx(const Model& model, std::span<const float> parameters, bool softmax) {
  return OnnxBuilder(model, parameters).Build(softmax);
}

}  // namespace trainer
