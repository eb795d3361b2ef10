// The life of a parameter server task: serve until the chief says that training is over.
#pragma once

#include <stop_token>

#include "absl/status/status.h"
#include "trainer/train/options.h"
#include "trainer/train/role.h"

namespace trainer {

// Returns OK when training has ended, kCancelled when stopped, kUnavailable when no chief or worker
// has been seen for --wait_timeout, kInvalidArgument when the port is taken.
absl::Status RunPs(const Options& options, const Role& role, std::stop_token stop);

}  // namespace trainer
