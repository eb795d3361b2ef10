// The parts that a diagnosis is made of: each reads one kind of object. PURE.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/cli/cluster/diagnosis.h"

namespace tfjob {

// A finding with the words that belong to its cause.
Finding MakeFinding(Cause cause, const std::string& object, const std::string& says);

// From the job's conditions and the events about it: suspended, queued, refused, failed.
std::vector<Finding> FindingsOfJob(const JobPicture& picture);

// From the status of one pod, the events about it, its claims and its log.
std::vector<Finding> FindingsOfPod(const Json& pod, const JobPicture& picture);

// What one message of the scheduler means ("0/3 nodes are available: …").
Finding FindingOfScheduling(const Json& pod, const std::string& message, const JobPicture& picture);

// Where there are nodes whose labels and whose size fit the pod, and all of them have a taint that
// it does not tolerate: those taints, "node2: dedicated=infra:NoSchedule"; else "".
std::string TaintsThatKeepItOff(const Json& pod, const std::vector<Json>& nodes);

// What a refusal of the API server means ("create pods …: exceeded quota …").
Cause CauseOfRefusal(const std::string& message);

// What the end of a container means. `reason`: of its terminated state.
Cause CauseOfExit(int code, const std::string& reason);

// The newest event about `kind` `name` with one of these reasons, a null when there is none.
const Json& NewestEvent(const JobPicture& picture, std::string_view kind, std::string_view name,
                        const std::vector<std::string_view>& reasons);
// When the event was last seen; InfinitePast when it does not say.
absl::Time TimeOfEvent(const Json& event);

// object[key] if it is an integer.
int IntAt(const Json& object, std::string_view key, int otherwise = 0);

std::string ObjectName(const Json& object);
std::string MessageOf(const Json& object);
// The condition of this type, a null when there is none.
const Json& ConditionOf(const Json& object, std::string_view type);
bool IsTrue(const Json& object, std::string_view condition);
// The job has succeeded or failed.
bool IsOver(const Json& job);
// The status of this container of the pod, a null before the kubelet has one.
const Json& ContainerStatus(const Json& pod, std::string_view name);
// Whether the text has this part, in any case.
bool Says(const std::string& text, std::string_view part);
// Whether the text tells that a host name was not found.
bool TellsOfDns(const std::string& text);

}  // namespace tfjob
