// Fuzzes the idx readers, plain and gzip. The first two bytes cut the rest into images and labels.
#include <cstddef>
#include <cstdint>
#include <span>

#include "trainer/data/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using trainer::OpenByteSource;
  if (size < 2) return 0;
  const std::span<const uint8_t> bytes(data + 2, size - 2);
  const size_t cut = (data[0] << 8 | data[1]) % (bytes.size() + 1);
  auto images = OpenByteSource("images", bytes.first(cut));
  auto labels = OpenByteSource("labels", bytes.subspan(cut));
  if (!images.ok() || !labels.ok()) return 0;
  const trainer::IdxSplitOptions options{.set_validation_aside = (size & 1) != 0,
                                         .keep_head = (size & 2) != 0};
  (void)trainer::ReadIdx(**images, **labels, options);
  return 0;
}
