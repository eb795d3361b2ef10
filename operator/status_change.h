// What sets the next status of a job apart from the last one. PURE.
#pragma once

#include "operator/reconcile/plan.h"

namespace tfjob {

// The condition of this type is True and was not.
bool Begins(const TfJobStatus& before, const TfJobStatus& after, const char* type);

// Of all types, as charged.
int RestartsOf(const TfJobStatus& status);

// The API server would store the same.
bool SameStatus(const TfJobStatus& a, const TfJobStatus& b);

// Nobody waits for this change of job.status: it is about the number of pods alone, or says that
// the job runs while not all of its replicas do. `is_first`: job.status is empty because one that
// says no more than Created has not been written yet.
bool IsOnlyAboutCounters(const TfJob& job, const TfJobStatus& after, bool is_first);

}  // namespace tfjob
