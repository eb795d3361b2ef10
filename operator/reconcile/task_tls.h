// TLS between a job's tasks: decided once for all of them, when the job starts. Whatever becomes of
// flags and operators later, the job's pods never differ in it. PURE.
#pragma once

#include "operator/reconcile/context.h"

namespace tfjob {

// Decides for a job that is about to start; a job that has pods already goes on as they are.
void DecideTaskTls(Context& context);

// The Secret, where it may not have been made yet. It comes before the pods that mount it.
void PlanTaskTlsSecret(Context& context);

// The Secret without its data, which the executor adds: a plan holds no secrets.
Json BuildTaskTlsSecret(const TfJob& job, const PlanOptions& options);

}  // namespace tfjob
