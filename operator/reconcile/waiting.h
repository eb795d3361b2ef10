// Which pods do not get on, and why, in the cluster's words. PURE.
#pragma once

#include <map>
#include <string>

#include "operator/reconcile/plan.h"

namespace tfjob {

// Those that wait for one reason: ImagePullBackOff, Unschedulable …
struct WaitingFor {
  const PodView* first = nullptr;  // by name; borrows from Observed
  int count = 0;
};

// By reason: the job's pods that wait and are not being deleted.
std::map<std::string, WaitingFor> WaitingPods(const Observed& observed);

// " (and 2 more pods)"; "" where the first is the only one.
std::string AndMore(const WaitingFor& pods);

}  // namespace tfjob
