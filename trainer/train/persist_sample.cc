// For the tests that let TensorFlow, TensorBoard and others read what we write:
//   trainer_persist_sample write DIR    a checkpoint, an event file and exports with known contents
//   trainer_persist_sample read PREFIX  name, shape and sum of every f32 tensor of a checkpoint
#include <cstdio>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/checkpoint/bundle.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/export.h"
#include "trainer/report/summary.h"

namespace trainer {
namespace {

constexpr int64_t kStep = 1234;
constexpr int kShards = 3;

LayerSpec MakeLayer(LayerKind kind, const char* name, int64_t units = 0, int64_t kernel = 0,
                    int64_t stride = 1, bool same_padding = true) {
  LayerSpec layer;
  layer.kind = kind;
  layer.name = name;
  layer.units = units;
  layer.kernel = kernel;
  layer.stride = stride;
  layer.same_padding = same_padding;
  layer.weights_init = {Initializer::Kind::kTruncatedNormal, 0.0f, 0.3f};
  layer.bias_init = {Initializer::Kind::kNormal, 0.0f, 0.3f};
  return layer;
}

// Every kind of layer, odd sizes, both paddings.
absl::StatusOr<Model> SampleModel() {
  ModelSpec spec;
  spec.name = "sample";
  spec.input_shape = {13, 10, 2};
  spec.layers = {MakeLayer(LayerKind::kConv2d, "conv1", 5, 5, 2),
                 MakeLayer(LayerKind::kTanh, ""),
                 MakeLayer(LayerKind::kMaxPool, "", 0, 2, 2),
                 MakeLayer(LayerKind::kConv2d, "conv2", 7, 3, 1, false),
                 MakeLayer(LayerKind::kSigmoid, ""),
                 MakeLayer(LayerKind::kFlatten, ""),
                 MakeLayer(LayerKind::kDense, "dense1", 11),
                 MakeLayer(LayerKind::kRelu, ""),
                 MakeLayer(LayerKind::kDropout, ""),
                 MakeLayer(LayerKind::kDense, "dense2", 4)};
  return Model::Create(spec);
}

// A third of the rows of each variable on each shard, as far as they go; slots and averages
// likewise.
std::vector<ShardState> SampleShards(const Model& model, const std::vector<float>& parameters) {
  std::vector<ShardState> shards(kShards, ShardState{kStep, {}});
  for (const Variable& variable : model.variables()) {
    const int64_t rows = RowCount(variable.shape);
    const int64_t row_size = variable.size / rows;
    for (int64_t shard = 0; shard < kShards; ++shard) {
      const int64_t begin = rows * shard / kShards;
      const int64_t end = rows * (shard + 1) / kShards;
      if (begin == end) continue;
      for (const char* suffix : {"", "/Adam", "/Adam_1", "/ExponentialMovingAverage"}) {
        const float scale = suffix[0] == '\0' ? 1.0f : 2.0f;
        std::vector<float> values;
        for (int64_t i = begin * row_size; i < end * row_size; ++i) {
          values.push_back(scale * parameters[static_cast<size_t>(variable.offset + i)]);
        }
        shards[static_cast<size_t>(shard)].slices.push_back(
            {variable.name + suffix, variable.shape, begin, end - begin, std::move(values)});
      }
    }
  }
  return shards;
}

absl::Status WriteEvents(const std::string& dir, const Model& model) {
  SummaryOptions options;
  options.dir = dir;
  ASSIGN_OR_RETURN(const std::unique_ptr<SummaryWriter> writer, SummaryWriter::Create(options));
  GraphDevices devices;
  devices.default_device = "/job:worker/task:0/device:CPU:0";
  devices.variables["dense1/weights"] = "/job:ps/task:0/device:CPU:0";
  writer->AddGraph(model, devices);
  for (int step = 1; step <= 10; ++step) {
    writer->AddScalar(step * 100, "loss", 1.0f / static_cast<float>(step));
  }
  std::vector<float> values(1000);
  std::iota(values.begin(), values.end(), -500.0f);
  writer->AddHistogram(500, "dense1/weights", values);
  return writer->Close();
}

absl::Status Write(const std::string& dir) {
  ASSIGN_OR_RETURN(const Model model, SampleModel());
  std::vector<float> parameters(static_cast<size_t>(model.parameter_count()));
  model.Initialize(7, parameters);
  ASSIGN_OR_RETURN(const std::optional<std::string> prefix, PrepareCheckpoint(dir, kStep));
  if (!prefix) return absl::OkStatus();
  const std::vector<ShardState> shards = SampleShards(model, parameters);
  std::vector<std::string> entries(kShards);
  for (int i = 0; i < kShards; ++i) {
    const auto index = static_cast<size_t>(i);
    ASSIGN_OR_RETURN(entries[index], WriteShard(shards[index], *prefix, i, kShards));
  }
  RETURN_IF_ERROR(FinishCheckpoint(*prefix, entries));
  RETURN_IF_ERROR(WriteEvents(dir, model));
  ExportOptions options;
  options.checkpoint = *prefix;
  options.averages = false;
  options.output = base::StrCat(dir, "/sample.safetensors");
  RETURN_IF_ERROR(ExportCheckpoint(model, options));
  options.output = base::StrCat(dir, "/sample.onnx");
  options.format = ExportFormat::kOnnx;
  return ExportCheckpoint(model, options);
}

absl::Status Read(const std::string& prefix) {
  RETURN_IF_ERROR(VerifyCheckpoint(prefix));
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, ReadTensors(prefix));
  std::printf("global_step %lld\n", static_cast<long long>(checkpoint.global_step));
  for (const auto& [name, tensor] : checkpoint.tensors) {
    const double sum = std::accumulate(tensor.values.begin(), tensor.values.end(), 0.0);
    std::printf("%s %s %.6g\n", name.c_str(), ShapeString(tensor.shape).c_str(), sum);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace trainer

int main(int argc, char** argv) {
  const std::string_view command = argc == 3 ? argv[1] : "";
  absl::Status status = base::UsageError("usage: trainer_persist_sample write DIR | read PREFIX");
  if (command == "write") status = trainer::Write(argv[2]);
  if (command == "read") status = trainer::Read(argv[2]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return base::ExitCodeFor(status);
}
