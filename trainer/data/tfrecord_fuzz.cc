// Fuzzes the TFRecord reader and the examples in its records. Since random bytes never carry a
// right CRC, the same bytes are also tried as the body of one record.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "trainer/data/crc32c.h"
#include "trainer/data/image_example.h"
#include "trainer/data/tfrecord.h"

namespace {

void ReadAll(std::span<const uint8_t> bytes) {
  auto source = trainer::OpenByteSource("fuzz", bytes);
  if (!source.ok()) return;
  trainer::TfRecordReader reader(std::move(*source), 1 << 20);
  trainer::ImageExampleParser parser;
  for (;;) {
    const auto example = parser.Next(reader, 0);
    if (!example.ok() || example->pixels.empty()) return;
  }
}

void AppendLittleEndian(uint64_t value, int bytes, std::string& out) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ReadAll({data, size});
  std::string record;
  AppendLittleEndian(size, 8, record);
  AppendLittleEndian(trainer::MaskCrc32c(trainer::Crc32c(record)), 4, record);
  record.append(reinterpret_cast<const char*>(data), size);
  AppendLittleEndian(trainer::MaskCrc32c(trainer::Crc32c(std::span(data, size))), 4, record);
  ReadAll({reinterpret_cast<const uint8_t*>(record.data()), record.size()});
  return 0;
}
