// Any bytes as a checkpoint index: an error or a parsed index, never a crash, a hang or unbounded
// memory.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trainer/checkpoint/bundle.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)trainer::DecodeBundleIndex({reinterpret_cast<const char*>(data), size});
  return 0;
}
