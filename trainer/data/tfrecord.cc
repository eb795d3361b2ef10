#include "trainer/data/tfrecord.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/data/crc32c.h"

namespace trainer {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kCrcBytes = 4;
constexpr size_t kHeaderBytes = kLengthBytes + kCrcBytes;
constexpr size_t kRecordStep = size_t{1} << 20;  // memory is taken as this many bytes arrive

uint64_t LoadLittleEndian(std::span<const uint8_t> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) value = value << 8 | bytes[i - 1];
  return value;
}

template <size_t kSize>
std::array<uint8_t, kSize> StoreLittleEndian(uint64_t value) {
  std::array<uint8_t, kSize> bytes;
  for (uint8_t& byte : bytes) {
    byte = static_cast<uint8_t>(value);
    value >>= 8;
  }
  return bytes;
}

std::string Hex(uint64_t crc) { return absl::StrFormat("0x%08x", crc); }

// OK if `stored` is the masked CRC of `bytes`.
absl::Status CheckCrc(const ByteSource& source, uint64_t offset, std::string_view what,
                      std::span<const uint8_t> bytes, std::span<const uint8_t> stored) {
  const uint32_t expected = MaskCrc32c(Crc32c(bytes));
  const uint64_t found = LoadLittleEndian(stored);
  if (found == expected) return absl::OkStatus();
  return source.Error(offset, base::StrCat("the CRC ", Hex(expected), " of the ", what),
                      base::StrCat(Hex(found), " (the file is corrupt or no TFRecord file)"));
}

absl::Status CutShort(const ByteSource& source, uint64_t offset, uint64_t expected, size_t found,
                      std::string_view what) {
  return source.Error(offset, base::StrCat(expected, " bytes of a ", what),
                      base::StrCat("only ", found, " before the end of the file"));
}

}  // namespace

TfRecordReader::TfRecordReader(std::unique_ptr<ByteSource> source, uint64_t max_record_bytes)
    : source_(std::move(source)), max_record_bytes_(max_record_bytes) {}

absl::Status TfRecordReader::RecordError(std::string_view expected, std::string_view found) const {
  return source_->Error(record_offset_, expected, found);
}

absl::StatusOr<std::optional<std::string_view>> TfRecordReader::Next() {
  record_offset_ = source_->offset();
  std::array<uint8_t, kHeaderBytes> header{};
  ASSIGN_OR_RETURN(const size_t header_bytes, source_->Read(header));
  if (header_bytes == 0) return std::nullopt;
  if (header_bytes < header.size()) {
    return CutShort(*source_, record_offset_, header.size(), header_bytes, "record's header");
  }
  const std::span<const uint8_t> length_bytes = std::span(header).first<kLengthBytes>();
  RETURN_IF_ERROR(CheckCrc(*source_, record_offset_ + kLengthBytes, "record's length", length_bytes,
                           std::span(header).last<kCrcBytes>()));
  const uint64_t length = LoadLittleEndian(length_bytes);
  if (length > max_record_bytes_) {
    return source_->Error(record_offset_,
                          base::StrCat("a record of at most ", max_record_bytes_, " bytes"),
                          base::StrCat(length));
  }
  const uint64_t begin = source_->offset();
  const uint64_t total = length + kCrcBytes;
  for (uint64_t done = 0; done < total;) {
    const size_t step = std::min<uint64_t>(total - done, kRecordStep);
    record_.resize(done + step);
    ASSIGN_OR_RETURN(const size_t got, source_->Read({record_.data() + done, step}));
    done += got;
    if (got < step) return CutShort(*source_, begin, total, done, "record and its CRC");
  }
  const std::span<const uint8_t> body(record_.data(), length);
  RETURN_IF_ERROR(CheckCrc(*source_, begin + length, "record", body,
                           std::span<const uint8_t>(record_).subspan(length)));
  return std::string_view(reinterpret_cast<const char*>(record_.data()), length);
}

absl::StatusOr<TfRecordWriter> TfRecordWriter::Create(std::string path) {
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(std::move(path)));
  return TfRecordWriter(std::move(file));
}

absl::Status TfRecordWriter::Append(std::string_view record) {
  const auto length = StoreLittleEndian<kLengthBytes>(record.size());
  RETURN_IF_ERROR(file_.Append(length));
  RETURN_IF_ERROR(file_.Append(StoreLittleEndian<kCrcBytes>(MaskCrc32c(Crc32c(length)))));
  RETURN_IF_ERROR(file_.Append(record));
  return file_.Append(StoreLittleEndian<kCrcBytes>(MaskCrc32c(Crc32c(record))));
}

absl::Status TfRecordWriter::Close() { return file_.Commit(); }

}  // namespace trainer
