// Steps that standing servers run: the client's side of in-graph training.
#pragma once

#include <memory>

#include "trainer/train/options.h"
#include "trainer/train/role.h"
#include "trainer/train/strategy.h"
#include "trainer/train/train_step.h"

namespace trainer {

// Each Run returns one step of one of the cluster's workers, all of which are kept busy. A worker
// that is lost is logged and tried again each second. `strategy` is the client's own, the chief's:
// it is started again when no step comes, which repairs parameter servers that were restarted.
// Sessions end when the last step is reached, Run is stopped, or the object is destroyed.
//
// Errors of Run: those of a worker's step, naming it; kUnavailable when no step was done for
// --wait_timeout, naming the workers that are missing; kCancelled when stopped.
std::unique_ptr<TrainStep> MakeRemoteStep(const Options& options, const Role& role,
                                          TrainStrategy* strategy);

}  // namespace trainer
