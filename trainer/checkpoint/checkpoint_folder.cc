// The folder half of checkpoint.h: which checkpoints there are, which is the newest complete one,
// the text file `checkpoint`, and what may be removed.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/checkpoint/bundle.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/checkpoint_internal.h"
#include "trainer/checkpoint/checkpoint_names.h"

namespace trainer {
namespace {

// The files of a folder that are ours.
struct FolderContent {
  // By step: has it an index; its files, index first: without it the others mean nothing.
  struct Step {
    bool has_index = false;
    std::vector<std::string> files;
  };
  std::map<int64_t, Step> steps;
  std::vector<std::pair<int64_t, std::string>> temporary;  // step, name
};

absl::StatusOr<FolderContent> ReadFolder(const std::string& dir) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(dir));
  FolderContent content;
  for (const std::string& name : names) {
    const std::optional<CheckpointFileName> parsed = ParseCheckpointFileName(name);
    if (!parsed) continue;
    if (parsed->kind == CheckpointFileName::Kind::kTemporary) {
      content.temporary.emplace_back(parsed->step, name);
      continue;
    }
    FolderContent::Step& step = content.steps[parsed->step];
    if (parsed->kind == CheckpointFileName::Kind::kIndex) {
      step.has_index = true;
      step.files.insert(step.files.begin(), name);
    } else {
      step.files.push_back(name);
    }
  }
  return content;
}

absl::Status Remove(Files* files, const std::string& path) {
  // Someone else's removal is as good as ours.
  if (files->Unlink(path) == 0 || errno == ENOENT) return absl::OkStatus();
  return base::DataError(base::StrCat("cannot remove ", path, ": ", std::strerror(errno)));
}

// Whether all files are there with the right sizes; checksums are not looked at.
bool IsWhole(const std::string& prefix) { return BundleReader::Open(prefix).ok(); }

std::string StateLine(std::string_view key, int64_t step) {
  return base::StrCat(key, ": \"", absl::CEscape(base::StrCat(kCheckpointStem, step)), "\"\n");
}

}  // namespace

std::string CheckpointPrefix(const std::string& dir, int64_t step) {
  return base::StrCat(dir, "/", kCheckpointStem, step);
}

absl::Status WriteCheckpointState(const std::string& dir, std::span<const int64_t> steps,
                                  Files* files) {
  if (steps.empty()) return absl::OkStatus();
  std::string text = StateLine("model_checkpoint_path", steps.back());
  for (const int64_t step : steps) {
    absl::StrAppend(&text, StateLine("all_model_checkpoint_paths", step));
  }
  return WriteFileAtomically(files, base::StrCat(dir, "/", kCheckpointStateName), text);
}

absl::StatusOr<std::vector<int64_t>> WholeSteps(const std::string& dir) {
  ASSIGN_OR_RETURN(const FolderContent content, ReadFolder(dir));
  std::vector<int64_t> steps;
  for (const auto& [step, entry] : content.steps) {
    if (entry.has_index && IsWhole(CheckpointPrefix(dir, step))) steps.push_back(step);
  }
  return steps;
}

absl::StatusOr<std::optional<std::string>> PrepareCheckpoint(const std::string& dir, int64_t step,
                                                             Files* files) {
  RETURN_IF_ERROR(MakeFolders(files, dir));
  ASSIGN_OR_RETURN(const FolderContent content, ReadFolder(dir));
  const std::string prefix = CheckpointPrefix(dir, step);
  const auto found = content.steps.find(step);
  if (found == content.steps.end()) return prefix;
  if (found->second.has_index && VerifyCheckpoint(prefix).ok()) return std::nullopt;
  for (const std::string& name : found->second.files) {
    RETURN_IF_ERROR(Remove(files, base::StrCat(dir, "/", name)));
  }
  return prefix;
}

absl::StatusOr<std::optional<CheckpointInfo>> FindNewestComplete(const std::string& dir) {
  absl::StatusOr<FolderContent> content = ReadFolder(dir);
  if (absl::IsNotFound(content.status())) return std::nullopt;
  RETURN_IF_ERROR(content.status());
  for (auto it = content->steps.rbegin(); it != content->steps.rend(); ++it) {
    const std::string prefix = CheckpointPrefix(dir, it->first);
    const absl::Status status =
        it->second.has_index
            ? VerifyCheckpoint(prefix)
            : base::DataError(base::StrCat(BundleIndexPath(prefix), " is missing"));
    if (status.ok()) return CheckpointInfo{prefix, it->first};
    base::LogWarning("skipped an incomplete checkpoint",
                     {{"checkpoint", prefix}, {"err", status.message()}});
  }
  return std::nullopt;
}

absl::StatusOr<int> Sweep(const std::string& dir, int max_to_keep, const std::string& writing,
                          Files* files) {
  ASSIGN_OR_RETURN(const FolderContent content, ReadFolder(dir));
  ASSIGN_OR_RETURN(const std::vector<int64_t> whole, WholeSteps(dir));
  const auto is_writing = [&](int64_t step) { return writing == CheckpointPrefix(dir, step); };

  const size_t keep = max_to_keep > 0 ? static_cast<size_t>(max_to_keep) : whole.size();
  const size_t first_kept = whole.size() - std::min(whole.size(), keep);
  const std::span<const int64_t> kept = std::span(whole).subspan(first_kept);
  std::vector<std::string> doomed;
  for (const auto& [step, name] : content.temporary) {
    if (!is_writing(step)) doomed.push_back(name);
  }
  bool names_change = false;
  for (const auto& [step, entry] : content.steps) {
    if (is_writing(step) || std::binary_search(kept.begin(), kept.end(), step)) continue;
    names_change |= std::binary_search(whole.begin(), whole.end(), step);
    doomed.insert(doomed.end(), entry.files.begin(), entry.files.end());
  }
  // First the list, so that it never names what is gone.
  if (names_change) RETURN_IF_ERROR(WriteCheckpointState(dir, kept, files));
  for (const std::string& name : doomed) {
    RETURN_IF_ERROR(Remove(files, base::StrCat(dir, "/", name)));
  }
  return static_cast<int>(doomed.size());
}

}  // namespace trainer
