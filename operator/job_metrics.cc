#include "operator/job_metrics.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace tfjob {
namespace {

const std::vector<double>& LatencyBuckets() {
  static const auto* const kBuckets =
      new std::vector<double>{0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120, 300, 1800};
  return *kBuckets;
}

}  // namespace

JobMetrics::JobMetrics(runtime::Metrics* metrics)
    : metrics_(*metrics),
      all_pods_(metrics->GetHistogram("trainyard_job_create_to_all_pods_seconds",
                                      "From a TFJob's creation until all its pods are created", {},
                                      LatencyBuckets())),
      running_(metrics->GetHistogram("trainyard_job_create_to_running_seconds",
                                     "From a TFJob's creation until its condition Running", {},
                                     LatencyBuckets())),
      pods_created_(metrics->GetCounter("trainyard_pods_created_total", "Pods created")),
      pods_deleted_(metrics->GetCounter("trainyard_pods_deleted_total", "Pods deleted")),
      status_writes_(metrics->GetCounter("trainyard_status_writes_total", "Status writes done")),
      status_conflicts_(metrics->GetCounter("trainyard_status_conflicts_total",
                                            "Status writes refused because the job had changed")) {}

runtime::Counter* JobMetrics::Jobs(const char* what, const std::string& ns) {
  return metrics_.GetCounter(absl::StrCat("training_operator_jobs_", what, "_total"),
                             absl::StrCat("TFJobs ", what),
                             {{"job_namespace", ns}, {"framework", "tensorflow"}});
}

// All five series of a namespace exist from its first job on.
void JobMetrics::Created(const std::string& ns) {
  Jobs("created", ns)->Increment();
  for (const char* what : {"deleted", "successful", "failed", "restarted"}) Jobs(what, ns);
}
void JobMetrics::Deleted(const std::string& ns) { Jobs("deleted", ns)->Increment(); }
void JobMetrics::Successful(const std::string& ns) { Jobs("successful", ns)->Increment(); }
void JobMetrics::Failed(const std::string& ns) { Jobs("failed", ns)->Increment(); }
void JobMetrics::Restarted(const std::string& ns, int times) {
  Jobs("restarted", ns)->Increment(times);
}
void JobMetrics::AllPodsCreated(absl::Duration since_creation) {
  all_pods_->Observe(absl::ToDoubleSeconds(since_creation));
}
void JobMetrics::Running(absl::Duration since_creation) {
  running_->Observe(absl::ToDoubleSeconds(since_creation));
}
void JobMetrics::PodsCreated(int n) { pods_created_->Increment(n); }
void JobMetrics::PodsDeleted(int n) { pods_deleted_->Increment(n); }
void JobMetrics::StatusWritten() { status_writes_->Increment(); }
void JobMetrics::StatusConflict() { status_conflicts_->Increment(); }

}  // namespace tfjob
