#include "operator/progress_metrics.h"

#include <utility>

namespace tfjob {
namespace {

constexpr char kGlobalStep[] = "trainyard_job_global_step";
constexpr char kLastStep[] = "trainyard_job_last_step";

// Not "namespace" and "job": those are Prometheus's own, of the operator.
runtime::Labels LabelsOf(const std::string& key) {
  const size_t slash = key.find('/');
  return {{"job_namespace", key.substr(0, slash)}, {"job_name", key.substr(slash + 1)}};
}

}  // namespace

ProgressMetrics::ProgressMetrics(runtime::Metrics* metrics, const ProgressWatch* watch)
    : metrics_(*metrics), watch_(watch) {
  if (watch != nullptr) sampler_ = metrics->AddSampler([this] { Sample(); });
}

void ProgressMetrics::Sample() {
  const ProgressCounters counters = watch_->counters();
  const auto total = [&](const char* result, int64_t value) {
    metrics_
        .GetCounter("trainyard_progress_asks_total", "Questions to chiefs for their progress",
                    {{"result", result}})
        ->RaiseTo(static_cast<double>(value));
  };
  total("answered", counters.answered);
  total("failed", counters.failed);
  std::map<std::string, Progress> now = watch_->All();
  for (const auto& [key, progress] : shown_) {
    if (now.contains(key)) continue;
    for (const char* name : {kGlobalStep, kLastStep}) metrics_.Remove(name, LabelsOf(key));
  }
  for (const auto& [key, progress] : now) {
    metrics_
        .GetGauge(kGlobalStep, "Steps of a running job, as its chief tells them", LabelsOf(key))
        ->Set(static_cast<double>(progress.global_step));
    metrics_.GetGauge(kLastStep, "Where a running job ends; 0 if not known", LabelsOf(key))
        ->Set(static_cast<double>(progress.last_step));
  }
  shown_ = std::move(now);
}

}  // namespace tfjob
