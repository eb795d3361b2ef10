// What CUDA's runtime says about devices and errors, in words that say what to do.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "trainer/cuda/plugin/failure.h"
#include "trainer/cuda/plugin/memory_pool.h"
#include "trainer/cuda/plugin_api.h"

namespace trainer::cuda {

// "CUDA 13.0, sm_75 sm_80 sm_90 sm_100".
const char* BuiltFor();

// Sets the failure where status is one: "GPU:0: could not <what>: …".
void CheckCuda(cudaError_t status, int device, const char* what, Failure* failure);

// Devices that this process may use, after CUDA_VISIBLE_DEVICES; fails where there is no driver, no
// device, or no cuBLASLt.
void CountGpus(int32_t* count, Failure* failure);
void DescribeGpu(int32_t device, TrainerCudaDevice* to, Failure* failure);

// The pool of a device, shared by all programs of this process; made by the first, whose options
// count, and given back with the last.
std::shared_ptr<MemoryPool> PoolOf(const TrainerCudaOptions& options, Failure* failure);

}  // namespace trainer::cuda
