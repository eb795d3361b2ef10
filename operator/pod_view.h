// Pods and services of the API server as the few values that decisions need. PURE and total: keeps
// no JSON, takes any.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "operator/reconcile/plan.h"

namespace tfjob {

// `sidecars`: names of containers without which a pod is judged: it has succeeded or failed when
// all others have ended and its restart policy starts none of them again. A sidecar as Kubernetes
// knows it, an init container that is restarted always, needs no name here.
PodView PodViewOf(const Json& pod, const std::set<std::string>& sidecars = {});
// The object is on its way out: it is being deleted, or its owner is another TFJob than the one of
// this uid, of the same name.
bool IsOfBefore(const PodView& view, const std::string& job_uid);
ServiceView ServiceViewOf(const Json& service);

// "Pending", as the API server writes it.
std::string_view PhaseName(PodPhase phase);

// "namespace/name" of the object itself.
std::string KeyOf(const Json& object);
// "namespace/job" by the label job-name; "" without that label.
std::string JobKeyOf(const Json& object);
std::string NameOf(const Json& object);
std::string UidOf(const Json& object);
// metadata.resourceVersion as a number, 0 if it is none. Versions of one API server grow with time.
uint64_t ResourceVersionOf(const Json& object);

}  // namespace tfjob
