// A worker's exchange with a parameter server on the same machine, through shared memory.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/ps/link.h"
#include "trainer/ps/shared_memory.h"

namespace trainer {

// `memory`: mapped by the server too, and reserved. `flat`: the same file as the caller sees it;
// gradients that lie in flat.gradient() and variables wanted in flat.variables() are not copied.
// Finish returns kUnavailable once the server has closed the channel or died; the link is of no use
// after that.
std::unique_ptr<Link> MakeSharedMemoryLink(std::shared_ptr<SharedMemory> memory,
                                           std::shared_ptr<SharedMemory> flat, Shard layout);

}  // namespace trainer
