#include "operator/cli/cluster/top.h"

#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "operator/cli/cluster/list.h"
#include "operator/cli/cluster/output.h"

namespace tfjob {
namespace {

constexpr char kHome[] = "\033[H\033[J";  // the whole screen is drawn anew

// One document a look: a line of JSON, or YAML behind a separator.
void PrintLook(const Cluster& cluster, const absl::StatusOr<std::vector<Json>>& jobs,
               std::ostream& out, std::ostream& err) {
  if (!jobs.ok()) {
    err << "trainyard: no answer: " << std::string(jobs.status().message()) << "\n";
  } else if (cluster.output == "yaml") {
    out << "---\n";
    PrintObject(cluster, ListOfJobs(*jobs), out);
  } else {
    out << ListOfJobs(*jobs).dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  }
}

}  // namespace

int WatchJobs(const Cluster& cluster, const TopFlags& flags, std::ostream& out, std::ostream& err) {
  if (!(flags.interval_seconds >= 0.1)) {
    return Fail(cluster, absl::InvalidArgumentError("--interval: is not at least 0.1 s"), err);
  }
  absl::Time answered = absl::InfinitePast();
  for (int round = 1;; ++round) {
    const absl::StatusOr<std::vector<Json>> jobs = ListAll(cluster, kube::kTfJobs, cluster.ns);
    const absl::Time now = cluster.now();
    if (!jobs.ok() && now - answered > kPatience) return Fail(cluster, jobs.status(), err);
    std::ostringstream screen;
    if (jobs.ok()) answered = now;
    if (IsStructured(cluster)) {
      PrintLook(cluster, jobs, screen, err);
    } else if (jobs.ok()) {
      screen << kHome << jobs->size() << " TFJobs, "
             << absl::FormatTime("%H:%M:%S", now, absl::LocalTimeZone()) << "\n\n";
      PrintTable(JobTable(*jobs, cluster.ns.empty(), /*wide=*/false, now), screen);
    } else {
      screen << "\nno answer for " << absl::ToInt64Seconds(now - answered)
             << " s: " << std::string(jobs.status().message()) << "\n";
    }
    out << screen.str() << std::flush;
    if (round == flags.rounds) return base::kExitOk;
    if (!cluster.pause(absl::Seconds(flags.interval_seconds))) return base::kExitInterrupted;
  }
}

}  // namespace tfjob
