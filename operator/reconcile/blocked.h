// The condition Blocked: what the job asks for cannot be done, and what somebody has to do about
// it. It goes by itself once the cause has gone. PURE.
#pragma once

#include "operator/reconcile/context.h"

namespace tfjob {

// Sets Blocked and sends an event for each trouble when it begins; removes the condition when the
// actions went through or nothing is left to do. compat_v19: events only.
void UpdateBlocked(Context& context);

}  // namespace tfjob
