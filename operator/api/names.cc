#include "operator/api/names.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace tfjob {
namespace {

constexpr std::array<const char*, 5> kReplicaTypes = {kChief, kEvaluator, kMaster, kPs, kWorker};

std::string Lower(std::string_view text) {
  return absl::AsciiStrToLower(absl::string_view(text.data(), text.size()));
}

}  // namespace

std::string CanonicalReplicaType(std::string_view key) {
  const std::string lower = Lower(key);
  for (const char* type : kReplicaTypes) {
    if (Lower(type) == lower) return type;
  }
  return std::string(key);
}

bool IsKnownReplicaType(std::string_view canonical) {
  return std::any_of(kReplicaTypes.begin(), kReplicaTypes.end(),
                     [&](const char* type) { return canonical == type; });
}

bool IsChiefLike(std::string_view canonical) { return canonical == kChief || canonical == kMaster; }

std::string LowerReplicaType(std::string_view type) { return Lower(type); }

std::string ReplicaName(std::string_view job, std::string_view type, int index) {
  return absl::StrReplaceAll(absl::StrCat(std::string(job), "-", Lower(type), "-", index),
                             {{"/", "-"}});
}

}  // namespace tfjob
