#include "operator/cli/cluster/job_row.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/api/shown.h"
#include "operator/cli/cluster/findings.h"

namespace tfjob {

std::string StateOf(const Json& job) {
  if (!base::StringAt(base::At(job, "metadata"), "deletionTimestamp").empty()) return "Deleting";
  return ShownState([&](const char* type) { return IsTrue(job, type); });
}

std::string ProgressOf(const Json& job) {
  return base::StringAt(base::At(job, "status", "progress"), "summary");
}

std::vector<ReplicaCounts> ReplicasOf(const Json& job) {
  std::vector<ReplicaCounts> out;
  const Json& statuses = base::At(job, "status", "replicaStatuses");
  const Json& specs = base::At(job, "spec", "tfReplicaSpecs");
  if (!specs.is_object()) return out;
  for (const auto& [key, spec] : specs.items()) {
    const std::string type = CanonicalReplicaType(key);
    const Json& status = base::At(statuses, type);
    out.push_back({.type = type,
                   .wanted = IntAt(spec, "replicas", 1),
                   .running = IntAt(status, "active"),
                   .succeeded = IntAt(status, "succeeded")});
  }
  std::sort(out.begin(), out.end(), [](const ReplicaCounts& a, const ReplicaCounts& b) {
    return std::make_pair(TypeRank(a.type), a.type) < std::make_pair(TypeRank(b.type), b.type);
  });
  return out;
}

std::string ReplicasText(const Json& job) {
  std::string out;
  for (const ReplicaCounts& counts : ReplicasOf(job)) {
    absl::StrAppend(&out, out.empty() ? "" : " ", LowerReplicaType(counts.type), " ",
                    counts.running + counts.succeeded, "/", counts.wanted);
  }
  return out;
}

int RestartsOf(const Json& job) {
  const Json& status = base::At(job, "status");
  int sum = 0;
  if (const Json& types = base::At(status, "replicaStatuses"); types.is_object()) {
    for (const auto& [type, counts] : types.items()) sum += IntAt(counts, "restarts");
  }
  return IntAt(status, "restarts", sum);
}

std::string ReasonOf(const Json& job) {
  const Json& conditions = base::ArrayAt(base::At(job, "status"), "conditions");
  return conditions.empty() ? "" : base::StringAt(conditions.back(), "message");
}

std::string ShortDuration(absl::Duration duration) {
  const int64_t seconds = std::max<int64_t>(0, absl::ToInt64Seconds(duration));
  if (seconds < 120) return absl::StrCat(seconds, "s");
  const int64_t minutes = seconds / 60;
  if (minutes < 120) return absl::StrCat(minutes, "m");
  const int64_t hours = minutes / 60;
  if (hours < 10 && minutes % 60 != 0) return absl::StrCat(hours, "h", minutes % 60, "m");
  if (hours < 48) return absl::StrCat(hours, "h");
  return absl::StrCat(hours / 24, "d");
}

std::string AgeText(const Json& object, std::string_view key, absl::Time now) {
  const auto since = base::TimeAt(object, key);
  return since ? ShortDuration(now - *since) : "-";
}

void PrintTable(const std::vector<std::vector<std::string>>& rows, std::ostream& out) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      std::string cell = row[i].empty() ? "-" : row[i];
      if (i + 1 < row.size()) cell.resize(std::max<size_t>(widths[i], 1) + 3, ' ');
      line += cell;
    }
    out << line << "\n";
  }
}

}  // namespace tfjob
