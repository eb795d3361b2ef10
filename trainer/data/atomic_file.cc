#include "trainer/data/atomic_file.h"

#include <utility>

#include "base/status_macros.h"

namespace trainer {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;

}  // namespace

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  RETURN_IF_ERROR(MakeFolders(Files::Real(), FolderOf(path)));
  ASSIGN_OR_RETURN(std::unique_ptr<DurableFile> file, DurableFile::Create(Files::Real(), path));
  return AtomicFile(std::move(file));
}

absl::Status AtomicFile::Append(std::span<const uint8_t> bytes) {
  return Append(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

absl::Status AtomicFile::Append(std::string_view bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) RETURN_IF_ERROR(Flush());
  if (bytes.size() > kBufferBytes) return file_->Append(bytes);
  buffer_.append(bytes);
  return absl::OkStatus();
}

absl::Status AtomicFile::Flush() {
  RETURN_IF_ERROR(file_->Append(buffer_));
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  RETURN_IF_ERROR(Flush());
  return file_->Commit();
}

}  // namespace trainer
