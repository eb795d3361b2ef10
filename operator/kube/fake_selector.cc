// Label selectors of the fake API server.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "operator/kube/fake_store.h"

namespace kube {
namespace {

struct Requirement {
  std::string key;
  std::vector<std::string> values;
  bool any_value = false;  // only whether the key is there
  bool negated = false;
};

std::string Trim(const std::string& text) { return std::string(absl::StripAsciiWhitespace(text)); }

// Cut at commas outside of brackets.
std::vector<std::string> Terms(const std::string& selector) {
  std::vector<std::string> out(1);
  int depth = 0;
  for (const char c : selector) {
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (c == ',' && depth == 0) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

bool ParseSet(const std::string& term, const std::string& word, Requirement* out) {
  const size_t at = term.find(word);
  if (at == std::string::npos || term.back() != ')') return false;
  out->key = Trim(term.substr(0, at));
  const std::string inside = term.substr(at + word.size(), term.size() - at - word.size() - 1);
  for (const auto& value : absl::StrSplit(inside, ',')) {
    out->values.push_back(Trim(std::string(value)));
  }
  return true;
}

Requirement ParseTerm(const std::string& term) {
  Requirement out;
  if (ParseSet(term, " notin (", &out)) {
    out.negated = true;
    return out;
  }
  if (ParseSet(term, " in (", &out)) return out;
  for (const char* sign : {"!=", "==", "="}) {
    const size_t at = term.find(sign);
    if (at == std::string::npos) continue;
    out.key = Trim(term.substr(0, at));
    out.values = {Trim(term.substr(at + std::string(sign).size()))};
    out.negated = sign[0] == '!';
    return out;
  }
  out.any_value = true;
  out.negated = absl::StartsWith(term, "!");
  out.key = Trim(out.negated ? term.substr(1) : term);
  return out;
}

bool Meets(const Json& labels, const Requirement& requirement) {
  const auto label = labels.find(requirement.key);
  const bool present = label != labels.end() && label->is_string();
  const bool match = present && (requirement.any_value ||
                                 std::find(requirement.values.begin(), requirement.values.end(),
                                           label->get<std::string>()) != requirement.values.end());
  return match != requirement.negated;
}

}  // namespace

bool Selected(const Json& object, const std::string& ns, const std::string& selector) {
  if (object.is_null()) return false;
  const Json& metadata = object.at("metadata");
  if (!ns.empty() && metadata.value("namespace", "") != ns) return false;
  if (selector.empty()) return true;
  const Json labels = metadata.value("labels", Json::object());
  const std::vector<std::string> terms = Terms(selector);
  return std::all_of(terms.begin(), terms.end(),
                     [&](const std::string& term) { return Meets(labels, ParseTerm(Trim(term))); });
}

std::string SelectorError(const std::string& selector) {
  if (selector.empty()) return "";
  for (const std::string& term : Terms(selector)) {
    const std::string key = ParseTerm(Trim(term)).key;
    const bool good = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("-_./", c);
    });
    if (!good) return absl::StrCat("unable to parse requirement: \"", term, "\"");
  }
  return "";
}

}  // namespace kube
