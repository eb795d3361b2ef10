// Pods of nodes that are gone: their deletion never ends by itself, since no kubelet confirms it.
// PURE.
#pragma once

#include "operator/reconcile/context.h"

namespace tfjob {

// With PlanOptions::lost_pod_timeout: deletes by force pods that the cluster took off their node
// and that should have been gone for so long; else asks to be woken at that instant.
void PlanLostPods(Context& context);

}  // namespace tfjob
