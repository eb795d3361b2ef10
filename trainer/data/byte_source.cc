#include "trainer/data/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"

namespace trainer {
namespace {

constexpr std::array<uint8_t, 2> kGzipMagic = {0x1f, 0x8b};
constexpr size_t kFileBuffer = size_t{64} << 10;
constexpr size_t kInflateInput = size_t{128} << 10;
// Deflate packs at most 258 bytes into two bits and never better (zlib's technical notes: 1032:1).
constexpr uint64_t kMaxInflation = 1032;

class MemorySource : public ByteSource {
 public:
  MemorySource(std::string name, std::span<const uint8_t> bytes)
      : ByteSource(std::move(name), bytes.size()), bytes_(bytes) {}

 private:
  absl::StatusOr<size_t> DoRead(std::span<uint8_t> out) override {
    const size_t count = std::min(out.size(), bytes_.size());
    if (count > 0) std::memcpy(out.data(), bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return count;
  }

  std::span<const uint8_t> bytes_;
};

class FileSource : public ByteSource {
 public:
  // Takes the descriptor over.
  FileSource(std::string path, int fd, uint64_t size)
      : ByteSource(std::move(path), size), fd_(fd) {}
  ~FileSource() override { ::close(fd_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

 private:
  // Small reads are served from a buffer, large ones go straight to where they belong.
  absl::StatusOr<size_t> DoRead(std::span<uint8_t> out) override {
    size_t filled = TakeBuffered(out);
    if (filled < out.size() && out.size() - filled < kFileBuffer) {
      buffer_.resize(kFileBuffer);
      ASSIGN_OR_RETURN(const size_t count, ReadFile(buffer_));
      buffer_.resize(count);
      position_ = 0;
      return filled + TakeBuffered(out.subspan(filled));
    }
    ASSIGN_OR_RETURN(const size_t count, ReadFile(out.subspan(filled)));
    return filled + count;
  }

  size_t TakeBuffered(std::span<uint8_t> out) {
    const size_t count = std::min(out.size(), buffer_.size() - position_);
    std::copy_n(buffer_.begin() + static_cast<ptrdiff_t>(position_), count, out.begin());
    position_ += count;
    return count;
  }

  absl::StatusOr<size_t> ReadFile(std::span<uint8_t> out) {
    size_t filled = 0;
    while (filled < out.size()) {
      const ssize_t count = ::read(fd_, out.data() + filled, out.size() - filled);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        return base::DataError(base::StrCat(name(), ": cannot read after offset ", offset(), ": ",
                                            std::strerror(errno)));
      }
      if (count == 0) break;
      filled += static_cast<size_t>(count);
    }
    return filled;
  }

  const int fd_;
  std::vector<uint8_t> buffer_;
  size_t position_ = 0;  // of the next byte in buffer_
};

// Unpacks one or several gzip members that follow each other, as gunzip does.
class GzipSource : public ByteSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> packed)
      : ByteSource(packed->name(), packed->size_bound() * kMaxInflation),
        packed_(std::move(packed)),
        input_(std::min<uint64_t>(kInflateInput, packed_->size_bound())) {}
  ~GzipSource() override { ::inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  absl::Status Init() {
    constexpr int kGzipOnly = 15 + 16;  // the largest window; 16 asks for a gzip header and trailer
    if (::inflateInit2(&stream_, kGzipOnly) != Z_OK) {
      return absl::ResourceExhaustedError(base::StrCat(name(), ": no memory to unpack it"));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<size_t> DoRead(std::span<uint8_t> out) override {
    size_t filled = 0;
    while (filled < out.size()) {
      if (stream_.avail_in == 0) RETURN_IF_ERROR(Refill());
      if (stream_.avail_in == 0) {
        if (between_members_) return filled;
        return PackedError("the rest of a gzip stream", "the end of the file (it is cut short)");
      }
      ASSIGN_OR_RETURN(const size_t count, Inflate(out.subspan(filled)));
      filled += count;
    }
    return filled;
  }

  absl::Status Refill() {
    ASSIGN_OR_RETURN(const size_t count, packed_->Read(input_));
    stream_.next_in = input_.data();
    stream_.avail_in = static_cast<uInt>(count);
    return absl::OkStatus();
  }

  absl::StatusOr<size_t> Inflate(std::span<uint8_t> out) {
    if (between_members_) {
      if (*stream_.next_in != kGzipMagic[0]) {
        return PackedError("the end of the file after the gzip stream", "more bytes");
      }
      ::inflateReset(&stream_);
      between_members_ = false;
    }
    constexpr size_t kMaxOutput = size_t{1} << 30;  // avail_out is an unsigned int
    const size_t room = std::min(out.size(), kMaxOutput);
    stream_.next_out = out.data();
    stream_.avail_out = static_cast<uInt>(room);
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      between_members_ = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return PackedError("a valid gzip stream",
                         stream_.msg != nullptr ? stream_.msg : "corrupt data");
    }
    return room - stream_.avail_out;
  }

  absl::Status PackedError(std::string_view expected, std::string_view found) const {
    return packed_->Error(packed_->offset() - stream_.avail_in, expected,
                          base::StrCat(found, " (offset in the compressed file)"));
  }

  const std::unique_ptr<ByteSource> packed_;
  std::vector<uint8_t> input_;
  z_stream stream_{};
  bool between_members_ = false;
};

bool IsGzip(std::span<const uint8_t> head) {
  return head.size() >= kGzipMagic.size() && std::ranges::equal(head.first(2), kGzipMagic);
}

absl::StatusOr<std::unique_ptr<ByteSource>> Unpacked(std::unique_ptr<ByteSource> packed) {
  auto source = std::make_unique<GzipSource>(std::move(packed));
  RETURN_IF_ERROR(source->Init());
  return source;
}

absl::Status CannotOpen(const std::string& path, std::string_view reason) {
  return base::DataError(base::StrCat(path, ": cannot open: ", reason));
}

}  // namespace

absl::StatusOr<size_t> ByteSource::Read(std::span<uint8_t> out) {
  ASSIGN_OR_RETURN(const size_t count, DoRead(out));
  offset_ += count;
  return count;
}

absl::Status ByteSource::Error(uint64_t offset, std::string_view expected,
                               std::string_view found) const {
  return base::DataError(
      base::StrCat(name_, ": offset ", offset, ": expected ", expected, ", found ", found));
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return CannotOpen(path, std::strerror(errno));
  struct stat info{};
  const bool known = ::fstat(fd, &info) == 0;
  auto file = std::make_unique<FileSource>(path, fd, known ? info.st_size : 0);
  if (!known) return CannotOpen(path, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return CannotOpen(path, "not a plain file");
  std::array<uint8_t, 2> head{};
  const ssize_t count = ::pread(fd, head.data(), head.size(), 0);
  if (count == 2 && IsGzip(head)) return Unpacked(std::move(file));
  return file;
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(std::string name,
                                                           std::span<const uint8_t> bytes) {
  auto source = std::make_unique<MemorySource>(std::move(name), bytes);
  if (IsGzip(bytes)) return Unpacked(std::move(source));
  return source;
}

}  // namespace trainer
