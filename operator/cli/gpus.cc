#include "operator/cli/gpus.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/json_read.h"
#include "base/str_cat.h"
#include "operator/cli/consume.h"

namespace tfjob {
namespace {

constexpr int kMaxGpus = 1024;

bool AllDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

// Numbers by value, so that 10 comes after 9; UUIDs after them.
bool Before(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

std::vector<std::string> Split(std::string_view list) {
  std::vector<std::string> ids;
  for (std::string id : std::vector<std::string>(absl::StrSplit(base::AbslView(list), ','))) {
    absl::StripAsciiWhitespace(&id);
    if (!id.empty()) ids.push_back(std::move(id));
  }
  return ids;
}

absl::StatusOr<std::vector<std::string>> FromFlag(const std::string& flag) {
  const absl::Status problem = absl::InvalidArgumentError(base::StrCat(
      "--gpus ", flag, ": expected a count such as 2, or indexes with a comma such as 0,3"));
  std::vector<std::string> ids = Split(flag);
  if (!std::all_of(ids.begin(), ids.end(), AllDigits)) return problem;
  if (flag.find(',') != std::string::npos) {
    std::sort(ids.begin(), ids.end(), Before);
    if (ids.empty() || std::adjacent_find(ids.begin(), ids.end()) != ids.end()) return problem;
    return ids;
  }
  int count = 0;
  if (!absl::SimpleAtoi(flag, &count) || count < 0 || count > kMaxGpus) return problem;
  ids.clear();
  for (int i = 0; i < count; ++i) ids.push_back(base::StrCat(i));
  return ids;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FindGpus(const std::optional<std::string>& flag,
                                                  const std::optional<std::string>& visible,
                                                  const std::string& device_folder) {
  if (flag) return FromFlag(*flag);
  if (visible) return Split(*visible);
  std::vector<std::string> ids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(device_folder, error)) {
    const std::string name = entry.path().filename();
    std::string_view id = name;
    if (ConsumePrefix(id, "nvidia") && AllDigits(id)) ids.emplace_back(id);
  }
  std::sort(ids.begin(), ids.end(), Before);
  return ids;
}

absl::StatusOr<int> GpusOfContainer(const Json& container) {
  const Json& resources = base::At(container, "resources");
  const Json& limit = base::At(resources, "limits", "nvidia.com/gpu");
  const Json& value = limit.is_null() ? base::At(resources, "requests", "nvidia.com/gpu") : limit;
  if (value.is_null()) return 0;
  int count = 0;
  if (!absl::SimpleAtoi(base::Scalar(value), &count) || count < 0) {
    return absl::InvalidArgumentError(
        base::StrCat("container \"", base::StringAt(container, "name"),
                     "\": nvidia.com/gpu must be a whole number, not ", base::Scalar(value)));
  }
  return count;
}

std::string VisibleDevices(const std::vector<std::string>& assigned,
                           const std::optional<std::string>& wanted) {
  if (!wanted) return absl::StrJoin(assigned, ",");
  std::vector<std::string> visible;
  for (const std::string& id : Split(*wanted)) {
    size_t index = 0;
    // CUDA stops at the first index that is not there.
    if (!absl::SimpleAtoi(id, &index) || index >= assigned.size()) break;
    visible.push_back(assigned[index]);
  }
  return absl::StrJoin(visible, ",");
}

std::optional<std::vector<std::string>> GpuPool::Take(int count) {
  if (count > free()) return std::nullopt;
  std::vector<std::string> taken(free_.begin(), free_.begin() + count);
  free_.erase(free_.begin(), free_.begin() + count);
  return taken;
}

void GpuPool::GiveBack(const std::vector<std::string>& gpus) {
  free_.insert(free_.end(), gpus.begin(), gpus.end());
  std::sort(free_.begin(), free_.end(), Before);
}

}  // namespace tfjob
