#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace base {
namespace {

using ::testing::MatchesRegex;

// The line that `write` puts on standard error.
template <typename Write>
std::string Captured(Write write) {
  ::testing::internal::CaptureStderr();
  write();
  return ::testing::internal::GetCapturedStderr();
}

TEST(Log, WritesTimeLevelMessageAndFields) {
  ConfigureLog(LogFormat::kText, LogLevel::kInfo);
  EXPECT_THAT(Captured([] { LogInfo("pod started", {{"job", "j"}, {"step", 7}}); }),
              MatchesRegex("[0-9-]+T[0-9:.]+Z INFO pod started job=j step=7\n"));
}

TEST(Log, QuotesValuesThatWouldBreakTheLine) {
  ConfigureLog(LogFormat::kText, LogLevel::kInfo);
  EXPECT_THAT(Captured([] { LogError("failed", {{"err", "a b\n\"c\""}}); }),
              MatchesRegex(".* ERROR failed err=\"a b\\\\n\\\\\"c\\\\\"\"\n"));
}

TEST(Log, WritesOneJsonObjectALine) {
  ConfigureLog(LogFormat::kJson, LogLevel::kInfo);
  const auto line = nlohmann::json::parse(Captured([] { LogWarning("x", {{"job", "\"j\""}}); }));
  EXPECT_EQ(line["level"], "WARNING");
  EXPECT_EQ(line["msg"], "x");
  EXPECT_EQ(line["job"], "\"j\"");
  EXPECT_TRUE(line.contains("time"));
  ConfigureLog(LogFormat::kText, LogLevel::kInfo);
}

TEST(Log, DropsLinesBelowTheLowestLevel) {
  ConfigureLog(LogFormat::kText, LogLevel::kWarning);
  EXPECT_EQ(Captured([] { LogInfo("quiet"); }), "");
  ConfigureLog(LogFormat::kText, LogLevel::kInfo);
}

}  // namespace
}  // namespace base
