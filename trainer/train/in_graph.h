// In-graph training: one client process drives the workers, which run as standing servers
// (`trainer serve`). Variables live on the parameter servers, as between graphs.
#pragma once

#include <stop_token>

#include "absl/status/status.h"
#include "trainer/model/backend.h"
#include "trainer/train/options.h"
#include "trainer/train/role.h"

namespace trainer {

// The client (`--existing_servers`): initialises the variables, keeps every worker busy, prints,
// saves, evaluates, and ends the parameter servers. Returns as RunTraining does. A worker that is
// lost is reported and taken in again when it is back; the others go on. kUnavailable when no step
// was done for --wait_timeout.
absl::Status RunInGraphClient(const Options& options, const Role& role, Backend& backend,
                              std::stop_token stop);

// A standing server: serves sessions of in-graph clients, one after another, until stopped
// (kCancelled), or with --exit_when_done until the first session has ended (OK).
absl::Status RunStandingServer(const Options& options, const Role& role, Backend& backend,
                               std::stop_token stop);

}  // namespace trainer
