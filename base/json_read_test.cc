#include "base/json_read.h"

#include <gtest/gtest.h>

namespace base {
namespace {

TEST(JsonRead, WhatIsMissingOrOfAnotherTypeReadsAsEmpty) {
  const Json object = {{"text", "a"}, {"number", 2}, {"flag", true}, {"inner", {{"key", "b"}}}};
  EXPECT_EQ(StringAt(object, "text"), "a");
  EXPECT_EQ(StringAt(object, "number"), "");
  EXPECT_EQ(StringAt(Json(), "text"), "");
  EXPECT_EQ(At(object, "inner", "key"), "b");
  EXPECT_TRUE(At(object, "text", "key").is_null());
  EXPECT_TRUE(BoolAt(object, "flag"));
  EXPECT_FALSE(BoolAt(object, "number"));
  EXPECT_TRUE(ArrayAt(object, "inner").empty());
  EXPECT_EQ(Scalar(object["number"]), "2");
}

TEST(JsonRead, TimesAreThoseOfKubernetes) {
  const Json object = {{"seconds", "2026-01-02T03:04:05Z"},
                       {"micros", "2026-01-02T03:04:05.250000Z"},
                       {"zone", "2026-01-02T04:04:05+01:00"},
                       {"none", "yesterday"},
                       {"empty", ""},
                       {"number", 5}};
  const absl::Time time =
      absl::FromCivil(absl::CivilSecond(2026, 1, 2, 3, 4, 5), absl::UTCTimeZone());
  EXPECT_EQ(TimeAt(object, "seconds"), time);
  EXPECT_EQ(TimeAt(object, "micros"), time + absl::Milliseconds(250));
  EXPECT_EQ(TimeAt(object, "zone"), time);
  for (const char* key : {"none", "empty", "number", "absent"}) {
    EXPECT_EQ(TimeAt(object, key), std::nullopt) << key;
  }
}

}  // namespace
}  // namespace base
