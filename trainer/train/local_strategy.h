// Training without parameter servers: this process holds all variables, and either trains alone or
// averages its gradients with other processes that hold the same ones (all-reduce).
#pragma once

#include <memory>
#include <string>

#include "trainer/model/model.h"
#include "trainer/model/team.h"
#include "trainer/ps/job_config.h"
#include "trainer/train/allreduce.h"
#include "trainer/train/strategy.h"

namespace trainer {

struct LocalStrategyOptions {
  JobConfig job;
  std::shared_ptr<const Model> model;
  std::unique_ptr<AllReducer> reducer;  // null = alone
  int rank = 0;                         // with a reducer; rank 0 restores and saves
  std::string checkpoint_dir;           // "" = none
  uint64_t seed = 1;                    // of the initial values
  std::shared_ptr<Team> team;  // shares the update's work; null = the training thread alone
};

std::unique_ptr<TrainStrategy> MakeLocalStrategy(LocalStrategyOptions options);

}  // namespace trainer
