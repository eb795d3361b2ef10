#include "trainer/ps/tune_malloc.h"

#include <malloc.h>

namespace trainer {

void TuneMalloc() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest that glibc takes
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  mallopt(M_TOP_PAD, 4 << 20);
  // One arena: what one thread frees, another reuses. Threads here share little else with it.
  mallopt(M_ARENA_MAX, 1);
}

}  // namespace trainer
