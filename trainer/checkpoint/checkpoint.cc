#include "trainer/checkpoint/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/checkpoint/bundle.h"
#include "trainer/checkpoint/checkpoint_internal.h"

namespace trainer {
namespace {

constexpr char kGlobalStep[] = "global_step";

// TensorFlow's Adam keeps beta^(t+1) as variables; t is the number of updates.
absl::Status AddAdamPowers(const OptimizerOptions& optimizer, int64_t updates,
                           BundleDataWriter* writer) {
  const double exponent = static_cast<double>(updates) + 1.0;
  const std::pair<const char*, float> powers[] = {{"beta1_power", optimizer.beta1},
                                                  {"beta2_power", optimizer.beta2}};
  for (const auto& [name, beta] : powers) {
    const float value = static_cast<float>(std::pow(static_cast<double>(beta), exponent));
    RETURN_IF_ERROR(writer->AddFloats(name, {}, {&value, 1}));
  }
  return absl::OkStatus();
}

absl::Status AddState(const ShardState& state, int shard, const OptimizerOptions& optimizer,
                      BundleDataWriter* writer) {
  bool has_adam = false;
  for (const StateSlice& slice : state.slices) {
    RETURN_IF_ERROR(writer->AddFloats(slice.name, {slice.shape, slice.first_row, slice.row_count},
                                      slice.elements()));
    has_adam |= absl::EndsWith(slice.name, "/Adam_1");
  }
  if (has_adam) RETURN_IF_ERROR(AddAdamPowers(optimizer, state.global_step, writer));
  if (shard == 0) RETURN_IF_ERROR(writer->AddInt64(kGlobalStep, state.global_step));
  return absl::OkStatus();
}

// "" if the checkpoint's tensor is as wanted, else one line of a list of differences.
std::string Difference(const std::string& name, std::span<const int64_t> wanted,
                       const std::vector<int64_t>* found) {
  if (found == nullptr) {
    return base::StrCat("  ", name, " ", ShapeString(wanted), " is missing in the checkpoint");
  }
  if (std::ranges::equal(wanted, *found)) return "";
  return base::StrCat("  ", name, ": the checkpoint has shape ", ShapeString(*found),
                      ", the model ", ShapeString(wanted));
}

absl::Status DifferencesError(const std::string& checkpoint,
                              const std::vector<std::string>& differences) {
  if (differences.empty()) return absl::OkStatus();
  return base::DataError(
      base::StrCat(checkpoint, " does not fit the model:\n", absl::StrJoin(differences, "\n"),
                   "\nuse the model and optimizer that it was trained with, or another "
                   "checkpoint folder"));
}

const std::vector<int64_t>* FloatShape(const BundleReader& reader, const std::string& name) {
  const BundleTensor* tensor = reader.Find(name);
  return tensor != nullptr && tensor->dtype == kDtypeFloat ? &tensor->shape : nullptr;
}

// Whether `name` is a variable of the model or something kept beside one ("layer1/weights/Adam").
bool BelongsTo(const std::set<std::string, std::less<>>& variables, std::string_view name) {
  if (variables.contains(name)) return true;
  const size_t slash = name.rfind('/');
  return slash != std::string_view::npos && variables.contains(name.substr(0, slash));
}

}  // namespace

absl::StatusOr<std::string> WriteShard(const ShardState& state, const std::string& prefix,
                                       int shard, int shard_count,
                                       const OptimizerOptions& optimizer, Files* files) {
  RETURN_IF_ERROR(MakeFolders(files, FolderOf(prefix)));
  ASSIGN_OR_RETURN(std::unique_ptr<BundleDataWriter> writer,
                   BundleDataWriter::Create(files, prefix, shard, shard_count));
  RETURN_IF_ERROR(AddState(state, shard, optimizer, writer.get()));
  ASSIGN_OR_RETURN(const bundle::ShardEntries entries, writer->Finish());
  return entries.SerializeAsString();
}

absl::Status FinishCheckpoint(const std::string& prefix, const std::vector<std::string>& entries,
                              Files* files) {
  std::vector<bundle::ShardEntries> shards(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    bundle::ShardEntries& shard = shards[i];
    if (!shard.ParseFromString(entries[i]) || shard.shard() != static_cast<int>(i) ||
        shard.shard_count() != static_cast<int>(entries.size())) {
      return base::DataError(base::StrCat("the answer of shard ", i, " of ", entries.size(),
                                          " for checkpoint ", prefix, " is not usable"));
    }
    const std::string path = BundleDataPath(prefix, shard.shard(), shard.shard_count());
    const absl::StatusOr<std::unique_ptr<ReadableFile>> file = ReadableFile::Open(path);
    if (!file.ok() || (*file)->size() != shard.data_bytes()) {
      return base::DataError(base::StrCat(
          "ps ", i, " wrote ", shard.data_bytes(), " bytes to ", path, " but this task ",
          file.ok() ? base::StrCat("finds ", (*file)->size()) : "cannot see that file",
          ": the checkpoint folder must be on a volume shared by all tasks"));
    }
  }
  ASSIGN_OR_RETURN(const std::string index, EncodeBundleIndex(shards));
  RETURN_IF_ERROR(WriteFileAtomically(files, BundleIndexPath(prefix), index));
  const std::string dir = FolderOf(prefix);
  ASSIGN_OR_RETURN(const std::vector<int64_t> steps, WholeSteps(dir));
  return WriteCheckpointState(dir, steps, files);
}

absl::Status VerifyCheckpoint(const std::string& prefix) {
  ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader, BundleReader::Open(prefix));
  return reader->VerifyChecksums();
}

absl::StatusOr<ShardState> ReadSlices(const std::string& prefix, ShardState wanted) {
  ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader, BundleReader::Open(prefix));
  std::vector<std::string> differences;
  for (const StateSlice& slice : wanted.slices) {
    std::string line = Difference(slice.name, slice.shape, FloatShape(*reader, slice.name));
    if (!line.empty()) differences.push_back(std::move(line));
  }
  RETURN_IF_ERROR(DifferencesError(prefix, differences));
  for (StateSlice& slice : wanted.slices) {
    const int64_t all_rows = RowCount(slice.shape);
    const int64_t rows = slice.row_count < 0 ? all_rows : slice.row_count;
    const int64_t first = slice.row_count < 0 ? 0 : slice.first_row;
    if (first < 0 || rows > all_rows || first > all_rows - rows) {
      return absl::InternalError(base::StrCat("rows ", first, " to ", first + rows, " of ",
                                              slice.name, " ", ShapeString(slice.shape)));
    }
    const int64_t row_size = all_rows > 0 ? ElementCount(slice.shape) / all_rows : 0;
    slice.values.resize(static_cast<size_t>(rows * row_size));
    RETURN_IF_ERROR(reader->ReadFloats(slice.name, first, slice.values));
  }
  ASSIGN_OR_RETURN(wanted.global_step, reader->ReadInt64(kGlobalStep));
  return wanted;
}

ShardWriter MakeShardWriter(const OptimizerOptions& optimizer) {
  return
      [optimizer](const ShardState& state, const std::string& prefix, int shard, int shard_count) {
        return WriteShard(state, prefix, shard, shard_count, optimizer);
      };
}

ShardReader MakeShardReader() {
  return [](const std::string& prefix, ShardState wanted) {
    return ReadSlices(prefix, std::move(wanted));
  };
}

absl::StatusOr<Checkpoint> ReadTensors(const std::string& prefix) {
  ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader, BundleReader::Open(prefix));
  Checkpoint checkpoint;
  ASSIGN_OR_RETURN(checkpoint.global_step, reader->ReadInt64(kGlobalStep));
  for (const auto& [name, stored] : reader->tensors()) {
    if (stored.dtype != kDtypeFloat) continue;
    CheckpointTensor& tensor = checkpoint.tensors[name];
    tensor.shape = stored.shape;
    tensor.values.resize(static_cast<size_t>(ElementCount(stored.shape)));
    RETURN_IF_ERROR(reader->ReadFloats(name, 0, tensor.values));
  }
  return checkpoint;
}

absl::Status FillParameters(const Checkpoint& checkpoint, std::span<const Variable> variables,
                            bool averages, std::span<float> parameters) {
  std::vector<std::string> differences;
  for (const Variable& variable : variables) {
    auto found = checkpoint.tensors.find(base::StrCat(variable.name, kAverageSuffix));
    if (!averages || found == checkpoint.tensors.end()) {
      found = checkpoint.tensors.find(variable.name);
    }
    const bool missing = found == checkpoint.tensors.end();
    std::string line =
        Difference(variable.name, variable.shape, missing ? nullptr : &found->second.shape);
    if (!line.empty()) {
      differences.push_back(std::move(line));
      continue;
    }
    std::ranges::copy(found->second.values, parameters.begin() + variable.offset);
  }
  return DifferencesError(base::StrCat("the checkpoint of step ", checkpoint.global_step),
                          differences);
}

absl::Status CompareToModel(const std::string& prefix, std::span<const Variable> variables) {
  ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader, BundleReader::Open(prefix));
  std::vector<std::string> differences;
  std::set<std::string, std::less<>> names;
  for (const Variable& variable : variables) {
    names.insert(variable.name);
    std::string line =
        Difference(variable.name, variable.shape, FloatShape(*reader, variable.name));
    if (!line.empty()) differences.push_back(std::move(line));
  }
  for (const auto& [name, tensor] : reader->tensors()) {
    if (tensor.shape.empty() || BelongsTo(names, name)) continue;
    differences.push_back(base::StrCat("  ", name, " ", ShapeString(tensor.shape),
                                       " is in the checkpoint but not in the model"));
  }
  return DifferencesError(prefix, differences);
}

}  // namespace trainer
