#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace base {
namespace {

struct LogState {
  LogState()
      : logger(std::make_shared<spdlog::logger>(
            "log", std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
    logger->set_pattern("%v");
    logger->set_level(spdlog::level::trace);
    logger->flush_on(spdlog::level::trace);
  }
  std::shared_ptr<spdlog::logger> logger;
  std::atomic<LogFormat> format = LogFormat::kText;
  std::atomic<LogLevel> min_level = LogLevel::kInfo;
};

// Never destroyed: threads may log while the process ends.
LogState& State() {
  static LogState* const state = new LogState();
  return *state;
}

const char* LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "DEBUG";
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kWarning:
      return "WARNING";
    case LogLevel::kError:
      return "ERROR";
  }
  return "?";
}

bool NeedsQuotes(std::string_view value) {
  return value.empty() || value.find_first_of(" \"=\n\t") != std::string_view::npos;
}

std::string Quoted(std::string_view value) {
  return nlohmann::json(std::string(value))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void ConfigureLog(LogFormat format, LogLevel min_level) {
  State().format = format;
  State().min_level = min_level;
}

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  LogState& state = State();
  if (level < state.min_level) return;
  std::string line;
  const std::string now =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
  if (state.format == LogFormat::kJson) {
    line = absl::StrCat("{\"time\":\"", now, "\",\"level\":\"", LevelName(level),
                        "\",\"msg\":", Quoted(message));
    for (const LogField& field : fields) {
      absl::StrAppend(&line, ",", Quoted(field.key), ":", Quoted(field.value));
    }
    line += "}";
  } else {
    line = absl::StrCat(now, " ", LevelName(level), " ",
                        absl::string_view(message.data(), message.size()));
    for (const LogField& field : fields) {
      absl::StrAppend(&line, " ", field.key, "=",
                      NeedsQuotes(field.value) ? Quoted(field.value) : field.value);
    }
  }
  state.logger->log(spdlog::level::info, line);
}

}  // namespace base
