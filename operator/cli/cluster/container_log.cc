#include "operator/cli/cluster/container_log.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"

namespace tfjob {
namespace {

constexpr absl::Duration kSilence = absl::Minutes(2);  // then the connection is made again
constexpr absl::Duration kPause = absl::Seconds(1);
constexpr int kTries = 30;  // in a row, of a server that does not answer

// Blocks while the reader is slow; false when it has gone.
bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = write(fd, text.data(), text.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return false;
    text.remove_prefix(static_cast<size_t>(size));
  }
  return true;
}

bool IsBroken(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

absl::Status CopyLog(const Cluster& cluster, const ContainerLogOptions& options, const Fd& out,
                     const std::stop_token& stop) {
  LogLines lines;
  kube::LogOptions request{.container = options.container,
                           .follow = options.follow,
                           .previous = options.previous,
                           .timestamps = true,
                           .tail_lines = options.tail_lines,
                           .idle_timeout = kSilence};
  for (int failures = 0;;) {
    bool written = true;
    const auto take = [&](std::string_view piece) {
      failures = 0;
      written = WriteAll(out.get(), lines.Add(piece));
      return written;
    };
    absl::Status status = cluster.client->Logs(cluster.ns, options.pod, request, take, stop);
    if (!written || stop.stop_requested()) return absl::OkStatus();
    if (!status.ok() && options.follow && IsBroken(status)) {
      // Silence is no failure.
      if (!absl::IsDeadlineExceeded(status) && ++failures > kTries) return status;
      lines.Reconnect();
      request.since_time = lines.Since();
      if (!request.since_time.empty()) request.tail_lines.reset();
      if (!base::PauseFor(kPause, stop)) return absl::OkStatus();
      continue;
    }
    WriteAll(out.get(), lines.Rest());
    // The container has not started, or its pod has gone: no trouble.
    if (absl::IsInvalidArgument(status) || absl::IsNotFound(status)) return absl::OkStatus();
    return status;
  }
}

std::string LogLines::Take(std::string_view line) {
  const size_t blank = line.find(' ');
  const std::string_view stamp = line.substr(0, blank);
  const bool stamped = stamp.size() >= 20 && stamp[4] == '-' && stamp[10] == 'T';
  if (!stamped) return std::string(line);  // the server's own words
  const std::string_view text =
      blank == std::string_view::npos ? std::string_view() : line.substr(blank + 1);
  // Timestamps of one runtime have one length: they compare as text.
  if (!seen_to_.empty() && stamp < seen_to_) return "";
  if (!seen_to_.empty() && stamp == seen_to_ && skip_ > 0) {
    --skip_;
    return "";
  }
  seen_ = stamp == newest_ ? seen_ + 1 : 1;
  newest_ = std::string(stamp);
  return std::string(text);
}

std::string LogLines::Add(std::string_view piece) {
  std::string out;
  partial_.append(piece);
  size_t start = 0;
  for (size_t end; (end = partial_.find('\n', start)) != std::string::npos; start = end + 1) {
    const std::string_view line(partial_.data() + start, end - start + 1);
    out += Take(line);
  }
  partial_.erase(0, start);
  return out;
}

std::string LogLines::Rest() {
  if (partial_.empty()) return "";
  return Take(std::exchange(partial_, std::string()) + "\n");
}

void LogLines::Reconnect() {
  partial_.clear();
  if (newest_.empty()) return;
  seen_to_ = newest_;
  skip_ = seen_;
}

std::string LogLines::Since() const {
  return newest_.size() < 19 ? "" : absl::StrCat(newest_.substr(0, 19), "Z");
}

}  // namespace tfjob
