// spec.network: one service for all pods of a job, named as in JobSet, and ports of their own for
// pods on their node's network. PURE.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/api/object_reader.h"
#include "operator/api/tfjob.h"

namespace tfjob {

NetworkSpec ReadNetworkSpec(ObjectReader network);
// {} when it says nothing.
Json NetworkSpecToJson(const NetworkSpec& network);

// `subdomain` is a DNS label, and there are ports enough for every replica.
void CheckNetworkSpec(const TfJobSpec& spec, std::vector<FieldError>& errors);
// What is allowed there but rarely meant, e.g. pods that cannot resolve each other's names.
void LintNetwork(const TfJobSpec& spec, std::vector<FieldError>& warnings);

// RFC 1035 label: at most 63 lower case letters, digits and dashes, from a letter on.
bool IsDns1035Label(const std::string& name);
bool IsOnHostNetwork(const ReplicaSpec& replica);

// The port that spec.network.hostPorts gives to one replica; nullopt where it gives none. Depends
// on the job's uid and types alone: the same before and after a restart of the operator and however
// the job is scaled, and another one for each replica of the job. `job` has its defaults.
std::optional<int> HostPortOf(const TfJob& job, const std::string& type, int index);
// Where one replica listens: HostPortOf, else its container port named tfjob-port, else 2222.
int TaskPortOf(const TfJob& job, const std::string& type, int index);

// <pod> or <pod>.<subdomain>: the name of a replica inside its namespace.
std::string HostOf(const TfJob& job, const std::string& type, int index);

}  // namespace tfjob
