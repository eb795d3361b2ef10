// Failed pods: which rule of spec.runPolicy.failurePolicy speaks of one, and what the status says
// of them. PURE.
#pragma once

#include <string>

#include "operator/reconcile/context.h"

namespace tfjob {

// How many of the first failures, and of the last, the status keeps.
inline constexpr size_t kFirstFailures = 3;
inline constexpr size_t kLastFailures = 1;

// Ended by the cluster and not by its program: evicted, pre-empted, its node lost.
bool IsDisrupted(const PodView& pod);

// The first rule that matches the failed pod; nullptr: none does.
const FailureRule* RuleFor(const TfJob& job, const std::string& type, const PodView& pod);

// A failed pod may restart the job as a whole.
bool MayRestartJob(const TfJob& job);

// "rule 2 of spec.runPolicy.failurePolicy", counted from 0 as in paths of fields.
std::string NameOf(const FailureRule& rule, const TfJob& job);

// Puts the failed pods into status.failures, each once.
void NoteFailures(Context& context);

}  // namespace tfjob
