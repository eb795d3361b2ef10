// Training through parameter servers, asynchronous or synchronous: the life of the cluster as one
// worker sees it. The chief initialises, restores and repairs the shards; the others wait for it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/cluster_spec.h"
#include "trainer/model/model.h"
#include "trainer/ps/client.h"
#include "trainer/train/strategy.h"

namespace trainer {

struct PsStrategyOptions {
  PsClientOptions client;
  JobConfig job;
  std::shared_ptr<const Model> model;
  bool chief = false;
  std::string chief_name;      // "/job:chief/task:0", for messages
  std::string checkpoint_dir;  // "" = none
  uint64_t seed = 1;           // of the initial values
  absl::Duration wait_timeout = absl::Minutes(10);
};

std::unique_ptr<TrainStrategy> MakePsStrategy(PsStrategyOptions options);

}  // namespace trainer
