#include "operator/cli/yaml_scalar.h"

#include <gtest/gtest.h>

namespace tfjob {
namespace {

TEST(YamlScalar, ReadsAsKubernetesDoes) {
  const struct {
    const char* text;
    const char* json;
  } kCases[] = {
      {"", "null"},
      {"~", "null"},
      {"null", "null"},
      {"Null", "null"},
      {"true", "true"},
      {"yes", "true"},
      {"On", "true"},
      {"y", "true"},
      {"False", "false"},
      {"off", "false"},
      {"N", "false"},
      {"tRue", "\"tRue\""},
      {"0", "0"},
      {"-17", "-17"},
      {"+3", "3"},
      {"1_000", "1000"},
      {"0x1F", "31"},
      {"0b101", "5"},
      {"017", "15"},
      {"0o17", "15"},
      {"089", "89"},
      {"2.0", "2"},
      {"1e3", "1000"},
      {".5", "0.5"},
      {"1.2.3", "\"1.2.3\""},
      {"0x", "\"0x\""},
      {"-", "\"-\""},
      {"1e", "\"1e\""},
      {"2026-01-02", "\"2026-01-02\""},
      {"1:20", "\"1:20\""},
      {"18446744073709551615", "18446744073709551615"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"hello", "\"hello\""},
      {"500m", "\"500m\""},
      {"1Gi", "\"1Gi\""},
  };
  for (const auto& c : kCases) {
    const std::optional<Json> value = ResolveScalar(c.text);
    ASSERT_TRUE(value) << c.text;
    EXPECT_EQ(value->dump(), c.json) << c.text;
  }
}

TEST(YamlScalar, RefusesWhatJsonCannotHold) {
  for (const char* text : {".inf", "-.Inf", ".NaN"}) EXPECT_FALSE(ResolveScalar(text)) << text;
}

}  // namespace
}  // namespace tfjob
