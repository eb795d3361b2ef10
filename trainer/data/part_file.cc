#include "trainer/data/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/data/atomic_file.h"
#include "trainer/data/sha256.h"

namespace trainer {
namespace {

constexpr std::string_view kSuffix = ".part";

std::string PartPath(const std::string& path) { return base::StrCat(path, kSuffix); }

}  // namespace

absl::StatusOr<PartFile> PartFile::Open(const std::string& path) {
  const std::string part = PartPath(path);
  const int fd = ::open(part.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return base::DataError(base::StrCat(part, ": cannot create: ", std::strerror(errno)));
  PartFile file(path, fd, 0);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(base::StrCat(part, ": another process is writing it"));
  }
  struct stat info{};
  if (::fstat(fd, &info) != 0) return file.Error("look at");
  file.size_ = static_cast<uint64_t>(info.st_size);
  return file;
}

PartFile::PartFile(std::string path, int fd, uint64_t size)
    : path_(std::move(path)), fd_(fd), size_(size) {}

PartFile::PartFile(PartFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

PartFile::~PartFile() {
  if (fd_ < 0) return;
  if (size_ == 0) ::unlink(PartPath(path_).c_str());  // nothing to go on from
  ::close(fd_);
}

absl::Status PartFile::Error(std::string_view action) const {
  return base::DataError(
      base::StrCat(PartPath(path_), ": cannot ", action, ": ", std::strerror(errno)));
}

absl::Status PartFile::Append(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error("write");
    size_ += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status PartFile::Clear() {
  if (::ftruncate(fd_, 0) != 0) return Error("empty");
  size_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<std::string> PartFile::Sha256Hex() const {
  Sha256 sha256;
  std::vector<uint8_t> buffer(size_t{1} << 20);
  for (uint64_t offset = 0; offset < size_;) {
    const ssize_t count = ::pread(fd_, buffer.data(), buffer.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error("read");
    if (count == 0) break;
    sha256.Update({buffer.data(), static_cast<size_t>(count)});
    offset += static_cast<uint64_t>(count);
  }
  return sha256.Finish();
}

absl::Status PartFile::Commit() {
  if (::fsync(fd_) != 0) return Error("sync");
  if (::rename(PartPath(path_).c_str(), path_.c_str()) != 0) return Error("rename");
  ::close(std::exchange(fd_, -1));
  (void)SyncFolder(Files::Real(), FolderOf(path_));  // best effort
  return absl::OkStatus();
}

}  // namespace trainer
