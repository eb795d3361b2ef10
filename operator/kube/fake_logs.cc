#include "operator/kube/fake_logs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "operator/kube/fake_path.h"

namespace kube {
namespace {

absl::Time TimeOfLine(int run, size_t line) {
  return absl::FromUnixSeconds(1767225600) + absl::Minutes(10) * run + absl::Seconds(line) +
         absl::Milliseconds(250);
}

std::string Stamped(int run, size_t line, const std::string& text) {
  return absl::StrCat(
      absl::FormatTime("%Y-%m-%dT%H:%M:%E9SZ", TimeOfLine(run, line), absl::UTCTimeZone()), " ",
      text);
}

Response NotStarted() {
  return {400,
          R"({"kind":"Status","code":400,"reason":"BadRequest",)"
          R"("message":"container is waiting to start: ContainerCreating"})",
          {}};
}

}  // namespace

void FakeLogs::Add(const std::string& ns, const std::string& pod, const std::string& line) {
  absl::MutexLock lock(&mutex_);
  logs_[ns + "/" + pod].lines.push_back(line);
}

void FakeLogs::End(const std::string& ns, const std::string& pod) {
  absl::MutexLock lock(&mutex_);
  logs_[ns + "/" + pod].ended = true;
}

void FakeLogs::Restart(const std::string& ns, const std::string& pod) {
  absl::MutexLock lock(&mutex_);
  Log& log = logs_[ns + "/" + pod];
  log.previous = std::exchange(log.lines, {});
  log.ended = false;
  ++log.run;
}

void FakeLogs::Cut() {
  absl::MutexLock lock(&mutex_);
  ++cuts_;
}

absl::StatusOr<Response> FakeLogs::Serve(const std::string& ns, const std::string& pod,
                                         const std::map<std::string, std::string>& query,
                                         const Request& request,
                                         const std::function<bool(std::string_view)>& on_data,
                                         const std::stop_token& stop) {
  const bool follow = QueryText(query, "follow") == "true";
  const bool previous = QueryText(query, "previous") == "true";
  const bool stamps = QueryText(query, "timestamps") == "true";
  absl::Time since = absl::InfinitePast();
  if (std::string error; !QueryText(query, "sinceTime").empty()) {
    absl::ParseTime(absl::RFC3339_full, QueryText(query, "sinceTime"), &since, &error);
  }
  bool stopped = false;
  const std::stop_callback on_stop(stop, [&] {
    absl::MutexLock lock(&mutex_);
    stopped = true;
  });
  Log* log = nullptr;  // never removed
  int run = 0, cuts = 0;
  size_t next = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = logs_.find(ns + "/" + pod);
    if (found == logs_.end()) return NotStarted();
    log = &found->second;
    run = log->run - (previous ? 1 : 0);
    cuts = cuts_;
    if (size_t tail = 0; absl::SimpleAtoi(QueryText(query, "tailLines"), &tail)) {
      const size_t size = (previous ? log->previous : log->lines).size();
      next = size - std::min(size, tail);
    }
  }
  for (;;) {
    std::string text;
    bool over = false;
    {
      absl::MutexLock lock(&mutex_);
      const auto has_news = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return !follow || stopped || cuts != cuts_ || log->run != run || log->ended ||
               next < log->lines.size();
      };
      if (!mutex_.AwaitWithTimeout(absl::Condition(&has_news), request.timeout)) {
        return absl::DeadlineExceededError("fake API server: a silent log");
      }
      if (stopped) return absl::CancelledError("stopped");
      if (cuts != cuts_) return absl::UnavailableError("fake API server: the connection broke");
      over = !follow || log->run != run || log->ended;
      const std::vector<std::string>& lines = log->run != run ? log->previous : log->lines;
      for (; next < lines.size(); ++next) {
        if (TimeOfLine(run, next) < since) continue;
        absl::StrAppend(&text, stamps ? Stamped(run, next, lines[next]) : lines[next], "\n");
      }
    }
    if (!text.empty() && !on_data(text)) return Response{200, "", {}};
    if (over) return Response{200, "", {}};
  }
}

}  // namespace kube
