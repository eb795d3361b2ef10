// TFRecord files: records one after another, each as length (8 bytes, little-endian), masked
// CRC-32C of the length, the bytes, and their masked CRC-32C
// (tensorflow.org/tutorials/load_data/tfrecord). Knows nothing of what a record means.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/atomic_file.h"
#include "trainer/data/byte_source.h"

namespace trainer {

inline constexpr uint64_t kMaxRecordBytes = uint64_t{256} << 20;

// Reads a source to its end. Not thread-safe.
class TfRecordReader {
 public:
  explicit TfRecordReader(std::unique_ptr<ByteSource> source,
                          uint64_t max_record_bytes = kMaxRecordBytes);

  // The next record, valid until the next call, or nullopt at the end. kDataLoss with file, offset,
  // expected and found: cut short, a wrong CRC, a record larger than the limit.
  absl::StatusOr<std::optional<std::string_view>> Next();

  uint64_t offset() const { return source_->offset(); }  // of the next record
  // A kDataLoss error about the record that Next() gave last.
  absl::Status RecordError(std::string_view expected, std::string_view found) const;

 private:
  const std::unique_ptr<ByteSource> source_;
  const uint64_t max_record_bytes_;
  uint64_t record_offset_ = 0;
  std::vector<uint8_t> record_;
};

// Writes a file that appears whole when Close() succeeds. Not thread-safe.
class TfRecordWriter {
 public:
  static absl::StatusOr<TfRecordWriter> Create(std::string path);
  absl::Status Append(std::string_view record);
  absl::Status Close();

 private:
  explicit TfRecordWriter(AtomicFile file) : file_(std::move(file)) {}
  AtomicFile file_;
};

}  // namespace trainer
