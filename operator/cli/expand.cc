#include "operator/cli/expand.h"

#include "absl/strings/ascii.h"

#include "base/str_cat.h"

namespace tfjob {

std::string Expand(std::string_view text, const VariableLookup& lookup) {
  std::string out;
  out.reserve(text.size());
  size_t at = 0;
  while (at < text.size()) {
    const size_t dollar = text.find('$', at);
    if (dollar == std::string_view::npos || dollar + 1 == text.size()) break;
    out.append(text.substr(at, dollar - at));
    const char next = text[dollar + 1];
    const size_t close = next == '(' ? text.find(')', dollar + 2) : std::string_view::npos;
    if (close != std::string_view::npos) {
      const std::string_view name = text.substr(dollar + 2, close - dollar - 2);
      const std::optional<std::string> value = lookup(name);
      out.append(value ? *value : base::StrCat("$(", name, ")"));
      at = close + 1;
      continue;
    }
    out.push_back('$');
    if (next != '$') out.push_back(next);
    at = dollar + 2;
  }
  out.append(text.substr(at));
  return out;
}

bool IsEnvName(std::string_view name) {
  if (name.empty() || absl::ascii_isdigit(static_cast<unsigned char>(name.front()))) return false;
  if (name == "." || name.substr(0, 2) == "..") return false;
  for (const char c : name) {
    const bool ok =
        absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
    if (!ok) return false;
  }
  return true;
}

}  // namespace tfjob
