// Ids that nobody else has.
#pragma once

#include <cstdint>

namespace base {

// 64 random bits of the system's generator, never 0, which stands for "none".
uint64_t RandomId();

}  // namespace base
