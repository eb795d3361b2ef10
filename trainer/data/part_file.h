// A file on its way: NAME.part grows, survives a cut, and becomes NAME when its checksum is right.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trainer {

// Locked against other processes while it lives. Not thread-safe. Errors are kDataLoss and name the
// file.
class PartFile {
 public:
  // Opens or creates PATH.part. kFailedPrecondition: another process writes it.
  static absl::StatusOr<PartFile> Open(const std::string& path);
  PartFile(PartFile&& other) noexcept;
  PartFile& operator=(PartFile&&) = delete;
  ~PartFile();

  uint64_t size() const { return size_; }
  absl::Status Append(std::span<const uint8_t> bytes);
  absl::Status Clear();
  absl::StatusOr<std::string> Sha256Hex() const;
  // Syncs and renames to PATH.
  absl::Status Commit();

 private:
  PartFile(std::string path, int fd, uint64_t size);
  absl::Status Error(std::string_view action) const;

  std::string path_;
  int fd_;
  uint64_t size_;
};

}  // namespace trainer
