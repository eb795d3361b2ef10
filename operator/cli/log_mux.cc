#include "operator/cli/log_mux.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "base/str_cat.h"

namespace tfjob {
namespace {

constexpr size_t kMaxBuffer = 1 << 20;
constexpr size_t kMaxLine = 64 << 10;  // longer ones are cut in pieces
constexpr size_t kWritable = 4096;     // PIPE_BUF: never blocks once poll says that there is room
constexpr std::string_view kEraseLine = "\r\033[2K";
constexpr std::string_view kReset = "\033[0m";
constexpr std::string_view kColors[] = {"\033[36m", "\033[33m", "\033[32m", "\033[35m", "\033[34m",
                                        "\033[96m", "\033[93m", "\033[92m", "\033[95m", "\033[94m"};
constexpr std::string_view kOwnColor = "\033[90m";
constexpr std::string_view kOwnLabel = "trainyard";

// Programs redraw a line by going back to its start: the last state is what counts.
std::string_view LastState(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const size_t back = line.rfind('\r');
  return back == std::string_view::npos ? line : line.substr(back + 1);
}

bool Writable(int fd, int timeout_ms) {
  struct pollfd entry{fd, POLLOUT, 0};
  return poll(&entry, 1, timeout_ms) == 1;
}

}  // namespace

std::string LogMux::Prefix(const std::string& label, size_t color) const {
  std::string padded = label;
  padded.resize(std::max(padded.size(), std::max(options_.label_width, kOwnLabel.size())), ' ');
  if (!options_.color) return base::StrCat(padded, " | ");
  const std::string_view code =
      label == kOwnLabel ? kOwnColor : kColors[color % std::size(kColors)];
  return base::StrCat(code, padded, " |", kReset, " ");
}

absl::Status LogMux::Add(Fd source, const std::string& label, const std::string& log_path) {
  Fd log(open(log_path.c_str(), O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0644));
  if (!log.valid()) {
    return absl::InvalidArgumentError(
        base::StrCat("cannot write ", log_path, ": ", std::strerror(errno)));
  }
  const size_t color = colors_.emplace(label, colors_.size()).first->second;
  const int fd = source.get();
  fcntl(fd, F_SETFL, O_NONBLOCK);
  sources_[fd] = {std::move(source), std::move(log), Prefix(label, color), ""};
  return absl::OkStatus();
}

std::vector<int> LogMux::Sources() const {
  std::vector<int> fds;
  if (buffer_.size() > kMaxBuffer) return fds;
  for (const auto& [fd, source] : sources_) fds.push_back(fd);
  return fds;
}

bool LogMux::ReadFrom(int fd) {
  const auto found = sources_.find(fd);
  if (found == sources_.end()) return false;
  char data[64 << 10];
  const ssize_t size = read(fd, data, sizeof(data));
  if (size > 0) {
    TakeLines(found->second, {data, static_cast<size_t>(size)});
    return true;
  }
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  EndSource(found->second);
  sources_.erase(found);
  return false;
}

void LogMux::Drain() {
  while (!sources_.empty()) {
    const int fd = sources_.begin()->first;
    struct pollfd entry{fd, POLLIN, 0};
    while (poll(&entry, 1, 0) == 1 && ReadFrom(fd)) Flush();
    if (const auto left = sources_.find(fd); left != sources_.end()) {
      EndSource(left->second);
      sources_.erase(left);
    }
  }
}

void LogMux::TakeLines(Source& source, std::string_view data) {
  // The file gets the bytes as they are. If the disk is full the stream still has them.
  [[maybe_unused]] const ssize_t written = write(source.log.get(), data.data(), data.size());
  source.partial.append(data);
  std::string_view rest = source.partial;
  for (size_t end; (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1)) {
    PutLine(source.prefix, rest.substr(0, end));
  }
  for (; rest.size() > kMaxLine; rest.remove_prefix(kMaxLine))
    PutLine(source.prefix, rest.substr(0, kMaxLine));
  source.partial.erase(0, source.partial.size() - rest.size());
}

void LogMux::EndSource(Source& source) {
  if (!source.partial.empty()) PutLine(source.prefix, source.partial);
}

void LogMux::PutLine(std::string_view prefix, std::string_view line) {
  if (progress_drawn_) buffer_.append(kEraseLine);
  progress_drawn_ = false;
  buffer_.append(base::StrCat(prefix, LastState(line), "\n"));
}

void LogMux::Say(std::string_view text) { PutLine(Prefix(std::string(kOwnLabel), 0), text); }

void LogMux::SetProgress(std::string_view text) {
  if (!options_.terminal) return;
  if (progress_drawn_) buffer_.append(kEraseLine);
  progress_drawn_ = false;
  progress_ = std::string(text);
}

void LogMux::Flush() {
  if (!progress_drawn_ && !progress_.empty()) {
    buffer_.append(progress_);
    progress_drawn_ = true;
  }
  size_t done = 0;
  while (done < buffer_.size() && Writable(options_.output, 0)) {
    const ssize_t size =
        write(options_.output, buffer_.data() + done, std::min(kWritable, buffer_.size() - done));
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) break;
    // A reader that has gone (`| head`) must not end the training: what it would have read is
    // dropped.
    done += size < 0 ? buffer_.size() - done : static_cast<size_t>(size);
  }
  buffer_.erase(0, done);
}

void LogMux::FlushAll() {
  do {
    Flush();
  } while (!buffer_.empty() && Writable(options_.output, 1000));
}

}  // namespace tfjob
