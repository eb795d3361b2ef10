// Makes, changes and deletes the PodGroup of one job through the API, and takes over one that is
// there already.
#pragma once

#include <stop_token>
#include <string>

#include "operator/execution.h"
#include "operator/job_cache.h"
#include "operator/kube/client.h"
#include "operator/reconcile/plan.h"

namespace tfjob {

// Of one execution of one job. Thread-safe, as its parts are.
class PodGroupWriter {
 public:
  // All outlive it.
  struct Parts {
    kube::Client& client;
    JobCache& cache;
    ExecutionRecord& record;
    const TfJob& job;
    const kube::Resource& resource;  // of the gang scheduler
    std::stop_token stop;
  };
  explicit PodGroupWriter(Parts parts);

  // False: what comes after it is not to be tried; the record says why.
  bool Create(const CreatePodGroup& create);
  bool Update(const UpdatePodGroup& update);
  bool Delete(const DeletePodGroup& gone);

 private:
  bool TakeExisting(const CreatePodGroup& create);
  bool Take(const Json& pod_group);
  bool Refused(const absl::Status& status, const char* reason, const char* doing);

  const Parts parts_;
  const std::string ns_;
  const std::string key_;
};

}  // namespace tfjob
