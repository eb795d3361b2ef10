#include "trainer/checkpoint/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/exit_codes.h"
#include "trainer/checkpoint/export_onnx.pb.h"
#include "trainer/data/test_folder.h"

namespace trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

LayerSpec Layer(LayerKind kind, std::string name = "", int64_t units = 0, int64_t kernel = 0) {
  LayerSpec layer;
  layer.kind = kind;
  layer.name = std::move(name);
  layer.units = units;
  layer.kernel = kernel;
  return layer;
}

Model SmallConvNet() {
  ModelSpec spec;
  spec.name = "small";
  spec.input_shape = {4, 4, 1};
  LayerSpec pool = Layer(LayerKind::kMaxPool, "", 0, 2);
  pool.stride = 2;
  spec.layers = {Layer(LayerKind::kConv2d, "conv", 2, 3),
                 Layer(LayerKind::kRelu),
                 pool,
                 Layer(LayerKind::kFlatten),
                 Layer(LayerKind::kDropout),
                 Layer(LayerKind::kDense, "dense", 3)};
  spec.layers[4].rate = 0.5f;
  const auto model = Model::Create(spec);
  EXPECT_TRUE(model.ok()) << model.status();
  return *model;
}

std::vector<float> Floats(const onnx::TensorProto& tensor) {
  std::vector<float> values(tensor.raw_data().size() / 4);
  std::memcpy(values.data(), tensor.raw_data().data(), tensor.raw_data().size());
  return values;
}

TEST(SafetensorsTest, HoldsAllTensorsBehindAHeader) {
  Checkpoint checkpoint;
  checkpoint.global_step = 42;
  checkpoint.tensors["b"] = {{2}, {1, 2}};
  checkpoint.tensors["a/w"] = {{1, 3}, {3, 4, 5}};
  checkpoint.tensors["scalar"] = {{}, {7}};
  const std::string bytes = EncodeSafetensors(checkpoint);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  EXPECT_EQ(header["__metadata__"]["global_step"], "42");
  EXPECT_EQ(header["a/w"]["dtype"], "F32");
  EXPECT_EQ(header["a/w"]["shape"], nlohmann::json({1, 3}));
  EXPECT_EQ(header["scalar"]["shape"], nlohmann::json::array());
  for (const auto& [name, tensor] : checkpoint.tensors) {
    const size_t begin = header[name]["data_offsets"][0];
    const size_t end = header[name]["data_offsets"][1];
    ASSERT_LE(8 + length + end, bytes.size());
    std::vector<float> values((end - begin) / 4);
    std::memcpy(values.data(), bytes.data() + 8 + length + begin, end - begin);
    EXPECT_EQ(values, tensor.values) << name;
  }
}

TEST(OnnxTest, TurnsImagesOnceEachWay) {
  const Model model = SmallConvNet();
  std::vector<float> parameters(static_cast<size_t>(model.parameter_count()));
  onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(EncodeOnnx(model, parameters, true)));
  std::vector<std::string> ops;
  for (const onnx::NodeProto& node : proto.graph().node()) ops.push_back(node.op_type());
  EXPECT_THAT(ops, ElementsAre("Transpose", "Conv", "Relu", "MaxPool", "Transpose", "Reshape",
                               "Gemm", "Softmax", "Identity"));
  EXPECT_EQ(proto.graph().input(0).type().tensor_type().shape().dim_size(), 4);
  EXPECT_EQ(proto.graph().output(0).name(), "output");
  EXPECT_EQ(proto.graph().output(0).type().tensor_type().shape().dim(1).dim_value(), 3);
}

TEST(OnnxTest, EveryInputIsMadeBeforeItIsUsed) {
  const Model model = SmallConvNet();
  std::vector<float> parameters(static_cast<size_t>(model.parameter_count()));
  onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(EncodeOnnx(model, parameters, false)));
  std::set<std::string> known = {"input"};
  for (const auto& tensor : proto.graph().initializer()) {
    EXPECT_TRUE(known.insert(tensor.name()).second) << tensor.name();
  }
  for (const onnx::NodeProto& node : proto.graph().node()) {
    for (const std::string& input : node.input()) EXPECT_TRUE(known.contains(input)) << input;
    for (const std::string& output : node.output()) EXPECT_TRUE(known.insert(output).second);
  }
  EXPECT_TRUE(known.contains("output"));
}

TEST(OnnxTest, TurnsFiltersAndKeepsMatrices) {
  const Model model = SmallConvNet();
  std::vector<float> parameters(static_cast<size_t>(model.parameter_count()));
  std::iota(parameters.begin(), parameters.end(), 0.0f);
  onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(EncodeOnnx(model, parameters, false)));
  const onnx::TensorProto& filters = proto.graph().initializer(0);
  EXPECT_EQ(filters.name(), "conv/weights");
  EXPECT_THAT(filters.dims(), ElementsAre(2, 1, 3, 3));
  // (3, 3, 1, 2) has the filters innermost: the first filter is the even elements.
  EXPECT_THAT(Floats(filters),
              ElementsAre(0, 2, 4, 6, 8, 10, 12, 14, 16, 1, 3, 5, 7, 9, 11, 13, 15, 17));
  const Variable& dense = model.variables()[2];
  for (const auto& tensor : proto.graph().initializer()) {
    if (tensor.name() != "dense/weights") continue;
    EXPECT_THAT(tensor.dims(), ElementsAre(8, 3));
    EXPECT_EQ(Floats(tensor)[0], static_cast<float>(dense.offset));
  }
}

class ExportCheckpointTest : public ::testing::Test {
 protected:
  void SaveSmallNet() {
    const auto prefix = PrepareCheckpoint(folder_.path() + "/run", 5);
    ShardState state = {5, {}};
    for (const Variable& variable : model_.variables()) {
      const std::vector<float> values(static_cast<size_t>(variable.size), 1.0f);
      const std::vector<float> averages(static_cast<size_t>(variable.size), 2.0f);
      state.slices.push_back({variable.name, variable.shape, 0, -1, values});
      state.slices.push_back(
          {variable.name + std::string(kAverageSuffix), variable.shape, 0, -1, averages});
    }
    const auto entry = WriteShard(state, **prefix, 0, 1);
    ASSERT_TRUE(FinishCheckpoint(**prefix, {*entry}).ok());
  }

  TestFolder folder_;
  const Model model_ = SmallConvNet();
};

TEST_F(ExportCheckpointTest, TakesTheNewestOfAFolder) {
  SaveSmallNet();
  ExportOptions options;
  options.checkpoint = folder_.path() + "/run";
  options.output = folder_.path() + "/out.safetensors";
  const absl::Status status = ExportCheckpoint(model_, options);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(folder_.Read("out.safetensors"), HasSubstr("\"global_step\":\"5\""));
}

TEST_F(ExportCheckpointTest, UsesAveragesUnlessToldOtherwise) {
  SaveSmallNet();
  ExportOptions options;
  options.checkpoint = CheckpointPrefix(folder_.path() + "/run", 5);
  options.output = folder_.path() + "/out.onnx";
  options.format = ExportFormat::kOnnx;
  for (const bool averages : {true, false}) {
    options.averages = averages;
    ASSERT_TRUE(ExportCheckpoint(model_, options).ok());
    onnx::ModelProto proto;
    ASSERT_TRUE(proto.ParseFromString(folder_.Read("out.onnx")));
    EXPECT_EQ(Floats(proto.graph().initializer(0))[0], averages ? 2.0f : 1.0f);
  }
}

TEST_F(ExportCheckpointTest, RefusesAnotherModel) {
  SaveSmallNet();
  ModelSpec spec;
  spec.input_shape = {4};
  spec.layers = {Layer(LayerKind::kDense, "dense", 3)};
  ExportOptions options;
  options.checkpoint = folder_.path() + "/run";
  options.output = folder_.path() + "/out.onnx";
  options.format = ExportFormat::kOnnx;
  const absl::Status status = ExportCheckpoint(*Model::Create(spec), options);
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitData);
  EXPECT_THAT(status.message(), HasSubstr("dense/weights"));
  EXPECT_EQ(folder_.Read("out.onnx"), "");
}

TEST_F(ExportCheckpointTest, SaysThatAFolderHasNoCheckpoint) {
  ExportOptions options;
  options.checkpoint = folder_.path();
  options.output = folder_.path() + "/out";
  EXPECT_THAT(ExportCheckpoint(model_, options).message(), HasSubstr("no complete checkpoint"));
}

TEST(ExportFormatTest, NamesTheChoices) {
  EXPECT_EQ(*ParseExportFormat("onnx"), ExportFormat::kOnnx);
  const auto format = ParseExportFormat("h5");
  EXPECT_EQ(base::ExitCodeFor(format.status()), base::kExitUsage);
  EXPECT_THAT(format.status().message(), HasSubstr("safetensors or onnx"));
}

}  // namespace
}  // namespace trainer
