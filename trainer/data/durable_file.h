// The few system calls that change a folder, behind one small interface so that a test
// can fail or end the process at any of them, and a file that appears whole or not at all.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trainer {

// System calls as the kernel has them: -1 with errno on failure. Thread-safe.
class Files {
 public:
  virtual ~Files() = default;
  virtual int Open(const std::string& path, int flags);
  virtual ssize_t Write(int fd, const void* data, size_t size);
  virtual int Sync(int fd);
  virtual int Close(int fd);
  virtual int Rename(const std::string& from, const std::string& to);
  virtual int Unlink(const std::string& path);
  virtual int MakeFolder(const std::string& path);
  // The process-wide real ones.
  static Files* Real();
};

// A new file under a temporary name in the folder of `path`. Commit gives it its name; without
// Commit the destructor removes it. Errors are DataErrors that name the path and the reason. Not
// thread-safe.
class DurableFile {
 public:
  // `files` must outlive the object.
  static absl::StatusOr<std::unique_ptr<DurableFile>> Create(Files* files, const std::string& path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  absl::Status Append(std::string_view bytes);
  // fsync, rename, fsync of the folder: afterwards the file survives a power loss.
  absl::Status Commit();

 private:
  DurableFile(Files* files, std::string path, std::string temporary, int fd);
  absl::Status Fail(std::string_view action);

  Files* const files_;
  const std::string path_;
  const std::string temporary_;
  int fd_;
  bool committed_ = false;
};

// Writes all of `bytes` to an open file; `path` is for the message of a DataError.
absl::Status WriteFully(Files* files, int fd, std::string_view bytes, const std::string& path);

absl::Status WriteFileAtomically(Files* files, const std::string& path, std::string_view bytes);

// Marks the temporary names that DurableFile makes; a crash may leave such files behind.
inline constexpr std::string_view kTemporaryMark = ".tmp-";

// Makes a rename in `folder` durable. Some network file systems cannot sync a folder (EINVAL) and
// need no such thing.
absl::Status SyncFolder(Files* files, const std::string& folder);

// Creates `path` and its parents where missing.
absl::Status MakeFolders(Files* files, const std::string& path);

// The folder part of a path ("." if it has none) and the rest.
std::string FolderOf(const std::string& path);
std::string BaseName(const std::string& path);

// Names in a folder, sorted. NotFound if the folder is not there; DataError if it cannot be read.
absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& folder);

// The whole of a regular file of at most `max_bytes`. DataError naming the path otherwise.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t max_bytes);

// A file open for reading at any offset. Thread-safe.
class ReadableFile {
 public:
  static absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path);
  ~ReadableFile();
  ReadableFile(const ReadableFile&) = delete;
  ReadableFile& operator=(const ReadableFile&) = delete;

  int64_t size() const { return size_; }  // when it was opened
  const std::string& path() const { return path_; }
  // Reads exactly `size` bytes; DataError with path and offset if there are fewer.
  absl::Status Read(int64_t offset, size_t size, void* destination) const;

 private:
  ReadableFile(std::string path, int fd, int64_t size);

  const std::string path_;
  const int fd_;
  const int64_t size_;
};

}  // namespace trainer
