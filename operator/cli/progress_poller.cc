#include "operator/cli/progress_poller.h"

#include <httplib.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

#include "base/str_cat.h"

namespace tfjob {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(500);
constexpr size_t kMaxAnswer = 64 << 10;

std::optional<Progress> Ask(int port) {
  httplib::Client client("127.0.0.1", port);
  client.set_connection_timeout(0, 300'000);
  client.set_read_timeout(0, 300'000);
  std::string body;
  const httplib::Result result = client.Get("/progress", [&](const char* data, size_t size) {
    body.append(data, size);
    return body.size() <= kMaxAnswer;
  });
  if (!result || result->status != 200) return std::nullopt;
  return ParseProgress(body);
}

std::string Clock(int64_t total) {
  if (total >= 3600)
    return absl::StrFormat("%d:%02d:%02d", total / 3600, total / 60 % 60, total % 60);
  return absl::StrFormat("%d:%02d", total / 60, total % 60);
}

}  // namespace

std::string FormatProgress(const Progress& progress, int width) {
  std::string text;
  if (progress.last_step > 0) {
    constexpr int kBar = 24;
    const double done =
        std::min(1.0, static_cast<double>(progress.global_step) / progress.last_step);
    const int full = static_cast<int>(done * kBar);
    text = base::StrCat("[", std::string(full, '#'), std::string(kBar - full, '-'), "] ",
                        progress.global_step, "/", progress.last_step);
  } else {
    text = base::StrCat("step ", progress.global_step);
  }
  if (progress.loss) absl::StrAppend(&text, absl::StrFormat("  loss %.4g", *progress.loss));
  if (progress.examples_per_sec)
    absl::StrAppend(&text, absl::StrFormat("  %.0f examples/s", *progress.examples_per_sec));
  if (progress.eta_seconds) absl::StrAppend(&text, "  ", Clock(*progress.eta_seconds), " left");
  if (width > 0) text.resize(std::min(text.size(), static_cast<size_t>(width)));
  return text;
}

ProgressPoller::ProgressPoller() {
  // Without a pipe there is no progress line, and that is all.
  if (absl::StatusOr<Pipe> news = MakePipe(); news.ok()) news_ = *std::move(news);
  thread_ = std::jthread([this] { Run(); });
}

ProgressPoller::~ProgressPoller() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
}

void ProgressPoller::SetPort(std::optional<int> port) {
  absl::MutexLock lock(&mutex_);
  port_ = port;
}

std::optional<Progress> ProgressPoller::Take() {
  char byte;
  [[maybe_unused]] const ssize_t size = read(news_.read_end.get(), &byte, 1);
  absl::MutexLock lock(&mutex_);
  return latest_;
}

void ProgressPoller::Publish(std::optional<Progress> progress) {
  {
    absl::MutexLock lock(&mutex_);
    latest_ = progress;
  }
  [[maybe_unused]] const ssize_t size = write(news_.write_end.get(), "", 1);
}

void ProgressPoller::Run() {
  for (;;) {
    std::optional<int> port;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kInterval);
      if (stopping_) return;
      port = port_;
    }
    if (port) Publish(Ask(*port));
  }
}

}  // namespace tfjob
