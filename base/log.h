// Structured log lines on standard error: time, level, constant message, key=value fields.
// The same keys are used everywhere: job, pod, task, step, version, err.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace base {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

// One key=value of a log line. The value is anything that absl::StrCat takes.
struct LogField {
  LogField(std::string_view field_key, const absl::AlphaNum& field_value)
      : key(field_key), value(field_value.Piece()) {}
  std::string key;
  std::string value;
};

// Sets the process's format and lowest level. Thread-safe; call once, from main.
void ConfigureLog(LogFormat format, LogLevel min_level);

// Writes one line. Thread-safe. Text: `2026-01-02T03:04:05.678Z INFO message key=value`;
// JSON: one object with time, level, msg and the fields as strings.
void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

inline void LogDebug(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kDebug, message, fields);
}
inline void LogInfo(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kInfo, message, fields);
}
inline void LogWarning(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kWarning, message, fields);
}
inline void LogError(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kError, message, fields);
}

}  // namespace base
