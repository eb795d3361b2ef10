#include "operator/cli/expand.h"

#include <gtest/gtest.h>

#include <map>

namespace tfjob {
namespace {

std::string ExpandAll(std::string_view text) {
  static const auto* const kVariables = new std::map<std::string, std::string, std::less<>>{
      {"VAR_A", "A"}, {"VAR_B", "B"}, {"VAR_C", "$(VAR_A)"}, {"EMPTY", ""}};
  return Expand(text, [](std::string_view name) -> std::optional<std::string> {
    const auto found = kVariables->find(name);
    if (found == kVariables->end()) return std::nullopt;
    return found->second;
  });
}

TEST(Expand, FollowsTheTableOfKubernetes) {
  const std::pair<const char*, const char*> kTable[] = {
      {"", ""},
      {"plain", "plain"},
      {"$(VAR_A)", "A"},
      {"___$(VAR_B)___", "___B___"},
      {"$(VAR_A)$(VAR_B)", "AB"},
      {"x-$(VAR_A)-$(EMPTY)-y", "x-A--y"},
      {"$(MISSING)", "$(MISSING)"},
      {"$(MISSING) $(VAR_A)", "$(MISSING) A"},
      {"$(VAR_C)", "$(VAR_A)"},
      {"$$(VAR_A)", "$(VAR_A)"},
      {"$$$(VAR_A)", "$A"},
      {"$$$$(VAR_A)", "$$(VAR_A)"},
      {"$$", "$"},
      {"$$$", "$$"},
      {"$", "$"},
      {"cost 5$", "cost 5$"},
      {"$VAR_A", "$VAR_A"},
      {"${VAR_A}", "${VAR_A}"},
      {"$(VAR_A", "$(VAR_A"},
      {"$(", "$("},
      {"$()", "$()"},
      {"$(VAR_A))", "A)"},
      {"$($(VAR_A))", "$($(VAR_A))"},
      {"$(VAR_A $(VAR_B)", "$(VAR_A $(VAR_B)"},
      {"\n$(VAR_A)\n", "\nA\n"},
  };
  for (const auto& [input, expected] : kTable) EXPECT_EQ(ExpandAll(input), expected) << input;
}

TEST(Expand, KnowsNamesOfVariables) {
  for (const char* name : {"A", "_a", "PS_HOSTS", "a.b", "a-b", "A1"})
    EXPECT_TRUE(IsEnvName(name)) << name;
  for (const char* name : {"", "1A", "a b", "a=b", ".", "..", "..a", "ä"})
    EXPECT_FALSE(IsEnvName(name)) << name;
}

}  // namespace
}  // namespace tfjob
