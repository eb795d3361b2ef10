// Conditions and counters of a job's status, by the rules of v1.9. PURE.
#pragma once

#include <string>
#include <vector>

#include "operator/reconcile/context.h"

namespace tfjob {

// Adds or changes a condition. Nothing changes once Failed is True (nor, but for compat_v19,
// Succeeded); a condition with equal status and reason is left alone; a changed one moves to the
// end; Running and Restarting replace each other; Succeeded and Failed set Running (by default what
// is Restarting, too) to False. True
// if anything changed.
bool SetCondition(Context& context, const std::string& type, const std::string& status,
                  const std::string& reason, const std::string& message);

// Whatever its status is; nullptr: there is none of this type.
const Condition* FindCondition(const TfJobStatus& status, const std::string& type);
// The condition of this type is not there any more.
void RemoveCondition(TfJobStatus& status, const std::string& type);

// Created, once: true if it was not there.
bool MarkCreated(Context& context);

// Sets Succeeded or Failed, the completion time and the event that goes with it; acts only once per
// job.
void Finish(Context& context, const std::string& condition, const std::string& message,
            const std::string& event_type = "Normal");

// What the chief says now goes into the status, where it is news.
void NoteProgress(Context& context);

// active, succeeded and failed of each type, the indexes that have succeeded, and the selector of
// the scale subresource.
void CountReplicas(Context& context);

void AddEvent(Context& context, const std::string& type, const std::string& reason,
              const std::string& message);

// "a, b, c" or, where there are many, "a, b, … and 90 more": keeps messages readable.
std::string NameList(const std::vector<std::string>& names);

// "ns/name".
std::string JobKey(const Context& context);

}  // namespace tfjob
