#include "trainer/data/durable_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"

namespace trainer {
namespace {

// What went wrong and, for the errors that a user meets, what to do.
absl::Status FileError(std::string_view action, const std::string& path, int error) {
  std::string_view advice;
  if (error == ENOSPC || error == EDQUOT) advice = ": free space on that volume";
  if (error == EROFS) advice = ": choose a folder on a writable volume";
  if (error == EACCES || error == EPERM) advice = ": check the owner and mode of the folder";
  return base::DataError(
      base::StrCat("cannot ", action, " ", path, ": ", std::strerror(error), advice));
}

int RetryOnSignal(auto call) {
  int result = 0;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

}  // namespace

int Files::Open(const std::string& path, int flags) {
  return ::open(path.c_str(), flags | O_CLOEXEC, 0644);
}
ssize_t Files::Write(int fd, const void* data, size_t size) { return ::write(fd, data, size); }
int Files::Sync(int fd) { return ::fsync(fd); }
int Files::Close(int fd) { return ::close(fd); }
int Files::Rename(const std::string& from, const std::string& to) {
  return ::rename(from.c_str(), to.c_str());
}
int Files::Unlink(const std::string& path) { return ::unlink(path.c_str()); }
int Files::MakeFolder(const std::string& path) { return ::mkdir(path.c_str(), 0755); }

Files* Files::Real() {
  static Files* const files = new Files();
  return files;
}

absl::StatusOr<std::unique_ptr<DurableFile>> DurableFile::Create(Files* files,
                                                                 const std::string& path) {
  // Tasks on several machines may share the folder: the process id alone is not unique, so an
  // existing name means trying the next.
  static std::atomic<uint32_t> counter{0};
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string temporary =
        base::StrCat(path, kTemporaryMark, ::getpid(), "-", counter.fetch_add(1));
    const int fd =
        RetryOnSignal([&] { return files->Open(temporary, O_WRONLY | O_CREAT | O_EXCL); });
    if (fd >= 0) {
      return std::unique_ptr<DurableFile>(new DurableFile(files, path, std::move(temporary), fd));
    }
    if (errno != EEXIST) return FileError("create", temporary, errno);
  }
  return FileError("create a temporary file for", path, EEXIST);
}

DurableFile::DurableFile(Files* files, std::string path, std::string temporary, int fd)
    : files_(files), path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

DurableFile::~DurableFile() {
  if (fd_ >= 0) files_->Close(fd_);
  if (!committed_) files_->Unlink(temporary_);
}

absl::Status DurableFile::Fail(std::string_view action) { return FileError(action, path_, errno); }

absl::Status DurableFile::Append(std::string_view bytes) {
  return WriteFully(files_, fd_, bytes, path_);
}

absl::Status DurableFile::Commit() {
  if (RetryOnSignal([&] { return files_->Sync(fd_); }) < 0) return Fail("sync");
  // Not retried: after EINTR the descriptor is gone on Linux. Network file systems report a full
  // volume here.
  const int closed = files_->Close(std::exchange(fd_, -1));
  if (closed < 0 && errno != EINTR) return Fail("close");
  if (files_->Rename(temporary_, path_) < 0) return Fail("rename the finished file to");
  committed_ = true;
  return SyncFolder(files_, FolderOf(path_));
}

absl::Status WriteFully(Files* files, int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = files->Write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError("write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status WriteFileAtomically(Files* files, const std::string& path, std::string_view bytes) {
  ASSIGN_OR_RETURN(std::unique_ptr<DurableFile> file, DurableFile::Create(files, path));
  RETURN_IF_ERROR(file->Append(bytes));
  return file->Commit();
}

absl::Status SyncFolder(Files* files, const std::string& folder) {
  const int fd = RetryOnSignal([&] { return files->Open(folder, O_RDONLY | O_DIRECTORY); });
  if (fd < 0) return FileError("open folder", folder, errno);
  const int result = RetryOnSignal([&] { return files->Sync(fd); });
  const int error = errno;
  files->Close(fd);
  if (result < 0 && error != EINVAL) return FileError("sync folder", folder, error);
  return absl::OkStatus();
}

absl::Status MakeFolders(Files* files, const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (files->MakeFolder(part) < 0) {
      // Other errors than "is there" do not matter if the folder is there: / may be read-only.
      const int error = errno;
      struct stat info;
      const bool is_folder = ::stat(part.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
      if (!is_folder) return FileError("create folder", part, error == EEXIST ? ENOTDIR : error);
    }
    if (end == std::string::npos) return absl::OkStatus();
  }
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(folder.c_str()), ::closedir);
  if (stream == nullptr) {
    if (errno == ENOENT) return absl::NotFoundError(base::StrCat("no such folder: ", folder));
    return FileError("list folder", folder, errno);
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) return FileError("list folder", folder, errno);
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t max_bytes) {
  ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, ReadableFile::Open(path));
  if (file->size() > static_cast<int64_t>(max_bytes)) {
    return base::DataError(base::StrCat(path, " has ", file->size(), " bytes, more than the ",
                                        max_bytes, " that such a file may have"));
  }
  std::string bytes(static_cast<size_t>(file->size()), '\0');
  RETURN_IF_ERROR(file->Read(0, bytes.size(), bytes.data()));
  return bytes;
}

absl::StatusOr<std::unique_ptr<ReadableFile>> ReadableFile::Open(const std::string& path) {
  const int fd = RetryOnSignal([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  if (fd < 0) return FileError("open", path, errno);
  struct stat info;
  if (::fstat(fd, &info) < 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return base::DataError(base::StrCat(path, " is not a regular file"));
  }
  return std::unique_ptr<ReadableFile>(new ReadableFile(path, fd, info.st_size));
}

ReadableFile::ReadableFile(std::string path, int fd, int64_t size)
    : path_(std::move(path)), fd_(fd), size_(size) {}

ReadableFile::~ReadableFile() { ::close(fd_); }

absl::Status ReadableFile::Read(int64_t offset, size_t size, void* destination) const {
  char* to = static_cast<char*>(destination);
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(fd_, to + done, size - done,
                                static_cast<off_t>(offset + static_cast<int64_t>(done)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError("read", path_, errno);
    if (got == 0) {
      return base::DataError(
          base::StrCat(path_, ": expected ", size, " bytes at offset ", offset, ", found ", done));
    }
    done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace trainer
