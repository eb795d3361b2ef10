// The first thing that went wrong in the plug-in; errors cross its C interface as code and text.
#pragma once

#include <string>

#include "trainer/cuda/plugin_api.h"

namespace trainer::cuda {

struct Failure {
  TrainerCudaCode code = kTrainerCudaOk;
  std::string text;

  bool ok() const { return code == kTrainerCudaOk; }
  // Keeps the first.
  void Set(TrainerCudaCode why, const std::string& what) {
    if (!ok()) return;
    code = why;
    text = what;
  }
};

}  // namespace trainer::cuda
