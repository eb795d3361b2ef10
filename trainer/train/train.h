// A whole training task: worker, chief, or this machine alone.
#pragma once

#include <memory>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/input.h"
#include "trainer/model/backend.h"
#include "trainer/train/options.h"
#include "trainer/train/role.h"
#include "trainer/train/settings.h"
#include "trainer/train/strategy.h"
#include "trainer/train/task_server.h"

namespace trainer {

// Trains until the last step. OK when done; kCancelled when stopped (as the chief, after a final
// checkpoint); else by kind of error (base/exit_codes.h).
absl::Status RunTraining(const Options& options, const Role& role, Backend& backend,
                         std::stop_token stop);

// The data that the options and the model ask for.
absl::StatusOr<std::shared_ptr<DataSource>> OpenTrainingData(const Options& options,
                                                             const Settings& settings);

// This task's own stream of batches; every task's differs. `rank` of `ranks` tasks that train.
absl::StatusOr<std::unique_ptr<Input>> OpenInput(const Options& options, const Settings& settings,
                                                 DataSource& data, int rank, int ranks);

// The strategy that the role asks for. `server`: this task's own, for the rendezvous of all-reduce;
// must outlive the strategy; may be null where there is no cluster.
absl::StatusOr<std::unique_ptr<TrainStrategy>> MakeStrategy(const Options& options,
                                                            const Settings& settings,
                                                            const Role& role, TaskServer* server,
                                                            std::stop_token stop);

}  // namespace trainer
