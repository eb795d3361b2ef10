// Arithmetic on CPUs: oneDNN's matrix products and convolutions, our own vectorised loops around
// them.
#pragma once

#include <memory>

#include "trainer/model/backend.h"

namespace trainer {

// Compile fails with kInvalidArgument for a device that is not a CPU. bf16 on a CPU without bf16
// instructions: a warning, and f32 instead. Losses and gradients are bit-equal from run to run for
// the same inputs, options.threads and CPU type.
std::unique_ptr<Backend> MakeCpuBackend();

// Whether this CPU multiplies bf16 matrices faster than f32 ones (AVX-512 BF16 or AMX).
bool CpuHasBf16();

}  // namespace trainer
