#include "operator/cli/cluster/top.h"

#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "operator/cli/cluster/list.h"

namespace tfjob {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);
constexpr char kHome[] = "\033[H\033[J";  // the whole screen is drawn anew

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
    if (jobs.ok()) {
      answered = now;
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
