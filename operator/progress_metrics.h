// The progress of training, as gauges of the jobs that tell it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "operator/progress_watch.h"
#include "operator/runtime/metrics.h"

namespace tfjob {

class ProgressMetrics {
 public:
  // Both outlive it; `watch` may be null.
  ProgressMetrics(runtime::Metrics* metrics, const ProgressWatch* watch);

 private:
  void Sample();

  runtime::Metrics& metrics_;
  const ProgressWatch* const watch_;
  std::map<std::string, Progress> shown_;  // of the one sampler
  std::unique_ptr<runtime::Sampler> sampler_;
};

}  // namespace tfjob
