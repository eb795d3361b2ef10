// The command line of `trainyard run`.
#pragma once

#include <CLI/CLI.hpp>

#include "operator/cli/run.h"

namespace tfjob {

// Adds the flags of `run` to its sub-command. REQUIRES: options outlives app.
void AddRunFlags(CLI::App& app, RunOptions& options);

}  // namespace tfjob
