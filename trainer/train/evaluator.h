// Tasks that only look at checkpoints: the evaluator job, `trainer eval` and `trainer export`.
#pragma once

#include <stop_token>

#include "absl/status/status.h"
#include "trainer/model/backend.h"
#include "trainer/train/options.h"
#include "trainer/train/role.h"

namespace trainer {

// Evaluates each new checkpoint on the test set until the one of the last step: one line each, and
// scalars in event files under SUMMARY_DIR/eval. kUnavailable: no new checkpoint for
// --wait_timeout.
absl::Status RunEvaluator(const Options& options, const Role& role, Backend& backend,
                          std::stop_token stop);

// `trainer eval`: evaluates one checkpoint (--checkpoint, or the newest of --checkpoint_dir) and
// prints `eval global_step=… test_accuracy=… test_cross_entropy=…`.
absl::Status RunEval(const Options& options, Backend& backend);

// `trainer export`: writes --output from one checkpoint.
absl::Status RunExport(const Options& options);

}  // namespace trainer
