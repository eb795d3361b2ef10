// Streams of bytes from files or memory, unpacked on the way when they are gzip, with errors that
// say which file and where. What the bytes mean is the readers' business.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trainer {

// Not thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Fills `out`; returns how much was filled, less than out.size() only where the data ends.
  // kDataLoss: the file cannot be read, or its compressed form is cut or corrupt.
  absl::StatusOr<size_t> Read(std::span<uint8_t> out);

  // No more than this many bytes can come in all: what a header claims is held against it before
  // memory is taken.
  uint64_t size_bound() const { return size_bound_; }
  uint64_t offset() const { return offset_; }  // bytes read so far (of the unpacked data)
  const std::string& name() const { return name_; }

  // A kDataLoss error `NAME: offset OFFSET: expected EXPECTED, found FOUND`.
  absl::Status Error(uint64_t offset, std::string_view expected, std::string_view found) const;

 protected:
  ByteSource(std::string name, uint64_t size_bound)
      : name_(std::move(name)), size_bound_(size_bound) {}
  virtual absl::StatusOr<size_t> DoRead(std::span<uint8_t> out) = 0;

 private:
  const std::string name_;
  const uint64_t size_bound_;
  uint64_t offset_ = 0;
};

// Opens a file; one that begins with gzip's magic number is unpacked, whatever its name.
// kDataLoss: missing, not readable, not a plain file.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(const std::string& path);

// The same over bytes in memory, which must outlive the source. `name` stands in errors.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(std::string name,
                                                           std::span<const uint8_t> bytes);

}  // namespace trainer
