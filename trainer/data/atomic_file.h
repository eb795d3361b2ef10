// A buffered DurableFile: for writers of many small pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/durable_file.h"

namespace trainer {

// Not thread-safe. Destroyed before Commit(), it leaves nothing behind.
class AtomicFile {
 public:
  // Creates the folder of `path` where it is missing. Errors name the path and the system's reason;
  // what stood at `path` stays until Commit().
  static absl::StatusOr<AtomicFile> Create(const std::string& path);

  absl::Status Append(std::span<const uint8_t> bytes);
  absl::Status Append(std::string_view bytes);
  absl::Status Commit();

 private:
  explicit AtomicFile(std::unique_ptr<DurableFile> file) : file_(std::move(file)) {}
  absl::Status Flush();

  std::unique_ptr<DurableFile> file_;
  std::string buffer_;
};

}  // namespace trainer
