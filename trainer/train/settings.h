// What to train, resolved: preset, then YAML, then flags.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "trainer/model/backend.h"
#include "trainer/model/model.h"
#include "trainer/model/presets.h"
#include "trainer/model/team.h"
#include "trainer/ps/job_config.h"
#include "trainer/train/options.h"
#include "trainer/train/role.h"

namespace trainer {

struct Settings {
  TrainingSpec spec;
  std::shared_ptr<const Model> model;
  int64_t train_steps =
      0;  // last global step; 0 until the size of the data is known (ResolveSteps)
  int towers = 1;
  int threads = 1;  // inside one tower's operations
  // Those threads, where the update of the variables uses them too; null = each program its own.
  std::shared_ptr<Team> team;
};

// Reads options.config where given. kInvalidArgument lists the problems of the model or the values.
absl::StatusOr<Settings> ResolveSettings(const Options& options);

// Fills in train_steps where the model says epochs: whole epochs over `examples` training examples.
void ResolveSteps(const Options& options, int64_t examples, Settings& settings);

// What the chief tells the parameter servers.
absl::StatusOr<JobConfig> MakeJobConfig(const Options& options, const Settings& settings,
                                        const Role& role);

// How the model is compiled for training and for evaluation.
ProgramOptions TrainingProgram(const Options& options, const Settings& settings);
ProgramOptions EvaluationProgram(const Settings& settings);

// Cores that this process may use: its affinity, capped by its control group's CPU quota. At
// least 1.
int UsableCores();

}  // namespace trainer
