// Metrics about jobs: training-operator's names and labels, each job counted once, and the
// latencies that users feel.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "operator/runtime/metrics.h"

namespace tfjob {

// Thread-safe.
class JobMetrics {
 public:
  // `metrics` outlives it.
  explicit JobMetrics(runtime::Metrics* metrics);

  // training_operator_jobs_*_total{job_namespace, framework="tensorflow"}.
  void Created(const std::string& ns);
  void Deleted(const std::string& ns);
  void Successful(const std::string& ns);
  void Failed(const std::string& ns);
  void Restarted(const std::string& ns, int times);

  // From a job's creationTimestamp, which has whole seconds.
  void AllPodsCreated(absl::Duration since_creation);
  void Running(absl::Duration since_creation);

  void PodsCreated(int n);
  void PodsDeleted(int n);
  void StatusWritten();
  void StatusConflict();

 private:
  runtime::Counter* Jobs(const char* what, const std::string& ns);

  runtime::Metrics& metrics_;
  runtime::Histogram* const all_pods_;
  runtime::Histogram* const running_;
  runtime::Counter* const pods_created_;
  runtime::Counter* const pods_deleted_;
  runtime::Counter* const status_writes_;
  runtime::Counter* const status_conflicts_;
};

}  // namespace tfjob
