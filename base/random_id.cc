#include "base/random_id.h"

#include <random>

namespace base {

uint64_t RandomId() {
  std::random_device device;
  uint64_t id = 0;
  while (id == 0) id = static_cast<uint64_t>(device()) << 32 | device();
  return id;
}

}  // namespace base
