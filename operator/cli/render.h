// `trainyard render job.yaml`: the services and pods that the operator would create, as YAML
// documents.
#pragma once

#include <ostream>
#include <string>

#include "operator/api/task_tls.h"
#include "operator/cli/manifest.h"
#include "operator/reconcile/plan.h"

namespace tfjob {

struct RenderOptions {
  std::string manifest;  // the file; "-" is standard input
  // As the operator plans by default.
  PlanOptions plan{.task_tls_images = TrainerImages()};
};

// Secrets (without their data), then services, then pods, each type in order of creation; one job
// after the other. Suspended jobs are rendered as if they were resumed. Exit code 0, or 2 with all
// problems on `err`.
int RenderFile(const RenderOptions& options, std::ostream& out, std::ostream& err);

// The objects of one valid job.
std::vector<Json> RenderJob(TfJob job, const PlanOptions& options);

}  // namespace tfjob
