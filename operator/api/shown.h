// How a job is shown, wherever people see it: the one word for its state, and the order of its
// replica types. PURE.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "operator/api/names.h"

namespace tfjob {

// The place of a (canonical) type in a list of types: Chief, Master, PS, Worker, Evaluator, others.
inline size_t TypeRank(std::string_view type) {
  constexpr std::array<std::string_view, 5> kOrder = {kChief, kMaster, kPs, kWorker, kEvaluator};
  return std::find(kOrder.begin(), kOrder.end(), type) - kOrder.begin();
}

// The state of a job until the operator has looked at it.
inline constexpr char kNew[] = "New";

// Of the condition types for which `is_true(const char*)` holds the one that matters most.
template <typename IsTrue>
const char* ShownState(const IsTrue& is_true) {
  for (const char* type : {kFailed, kSucceeded, kSuspended, kBlocked, kQueued, kRestarting,
                           kStalled, kRunning, kCreated}) {
    if (is_true(type)) return type;
  }
  return kNew;
}

}  // namespace tfjob
