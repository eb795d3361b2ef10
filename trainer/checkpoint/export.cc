#include "trainer/checkpoint/export.h"

#include <sys/stat.h>

#include <optional>
#include <vector>

#include "base/exit_codes.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/str_cat.h"

namespace trainer {
namespace {

// A folder stands for its newest complete checkpoint.
absl::StatusOr<std::string> ResolvePrefix(const std::string& checkpoint) {
  struct stat info;
  if (::stat(checkpoint.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return checkpoint;
  ASSIGN_OR_RETURN(const std::optional<CheckpointInfo> newest, FindNewestComplete(checkpoint));
  if (!newest) {
    return base::DataError(base::StrCat("there is no complete checkpoint in ", checkpoint));
  }
  return newest->prefix;
}

absl::StatusOr<std::string> Encode(const Model& model, const Checkpoint& checkpoint,
                                   const ExportOptions& options) {
  if (options.format == ExportFormat::kSafetensors) return EncodeSafetensors(checkpoint);
  std::vector<float> parameters(static_cast<size_t>(model.parameter_count()));
  RETURN_IF_ERROR(FillParameters(checkpoint, model.variables(), options.averages, parameters));
  return EncodeOnnx(model, parameters, options.softmax);
}

}  // namespace

absl::StatusOr<ExportFormat> ParseExportFormat(std::string_view name) {
  if (name == "safetensors") return ExportFormat::kSafetensors;
  if (name == "onnx") return ExportFormat::kOnnx;
  return base::UsageError(
      base::StrCat("--format: \"", name, "\" is not known; use safetensors or onnx"));
}

absl::Status ExportCheckpoint(const Model& model, const ExportOptions& options) {
  ASSIGN_OR_RETURN(const std::string prefix, ResolvePrefix(options.checkpoint));
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, ReadTensors(prefix));
  ASSIGN_OR_RETURN(const std::string bytes, Encode(model, checkpoint, options));
  RETURN_IF_ERROR(WriteFileAtomically(Files::Real(), options.output, bytes));
  base::LogInfo("exported a checkpoint", {{"checkpoint", prefix},
                                          {"step", checkpoint.global_step},
                                          {"file", options.output},
                                          {"bytes", bytes.size()}});
  return absl::OkStatus();
}

}  // namespace trainer
