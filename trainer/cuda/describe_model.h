// A model and its batches in the words of the plug-in's interface. PURE.
#pragma once

#include <vector>

#include "trainer/cuda/plugin_api.h"
#include "trainer/model/backend.h"
#include "trainer/model/model.h"

namespace trainer::cuda {

struct DescribedModel {
  std::vector<TrainerCudaLayer> layers;
  // Its layers are those above.
  TrainerCudaModel Raw() const;

  TrainerCudaModel rest = {};
};

DescribedModel Describe(const Model& model);

// Points into the batch.
TrainerCudaBatch RawBatch(const Batch& batch);

}  // namespace trainer::cuda
