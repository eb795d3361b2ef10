// Makes and deletes the claims of a job's replicas through the API; what is there already is used,
// as by a StatefulSet.
#pragma once

#include <stop_token>
#include <string>

#include "operator/execution.h"
#include "operator/kube/client.h"
#include "operator/reconcile/plan.h"

namespace tfjob {

// Of one execution of one job. Thread-safe, as its parts are.
class ClaimWriter {
 public:
  // All outlive it.
  struct Parts {
    kube::Client& client;
    ExecutionRecord& record;
    const TfJob& job;
    std::stop_token stop;
  };
  explicit ClaimWriter(Parts parts);

  // False: what comes after it is not to be tried; the record says why.
  bool Create(const CreateClaim& create);
  // Only one of ours, though it may be of an earlier job of this name: its labels say so.
  bool Delete(const DeleteClaim& gone);

 private:
  bool Use(const Json& claim);

  const Parts parts_;
  const std::string ns_;
  const std::string key_;
};

}  // namespace tfjob
