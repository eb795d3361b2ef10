// spec.runPolicy.activeDeadlineSeconds. PURE.
#pragma once

#include "operator/reconcile/context.h"

namespace tfjob {

// Fails the job once it has been active for that long; else asks to be woken at that instant.
void CheckDeadline(Context& context);

}  // namespace tfjob
