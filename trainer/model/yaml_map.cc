// Typed access to YAML with messages for people.
#include "trainer/model/yaml_map.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "base/nearest.h"
#include "base/str_cat.h"

namespace trainer {
namespace {

std::string Shown(const YAML::Node& node) {
  constexpr size_t kLongest = 40;
  if (node.IsMap()) return "a mapping";
  if (node.IsSequence()) return "a list";
  if (!node.IsScalar()) return "nothing";
  const std::string& text = node.Scalar();
  return base::StrCat("'", text.substr(0, kLongest), text.size() > kLongest ? "…" : "", "'");
}

}  // namespace

void YamlProblems::Add(int line, std::string_view what) {
  problems_.push_back({line, std::string(what)});
}

std::string YamlProblems::Report(std::string_view origin) const {
  std::vector<Problem> sorted = problems_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Problem& a, const Problem& b) { return a.line < b.line; });
  std::vector<std::string> lines;
  for (const Problem& problem : sorted) {
    const std::string line = problem.line < 0 ? "" : base::StrCat(":", problem.line + 1);
    lines.push_back(base::StrCat(origin, line, ": ", problem.what));
  }
  return absl::StrJoin(lines, "\n");
}

YamlMap::YamlMap(const YAML::Node& node, std::string where, YamlProblems* problems)
    : node_(node), where_(std::move(where)), problems_(*problems) {}

bool YamlMap::Has(const char* key) { return Get(key).IsDefined(); }

YAML::Node YamlMap::Get(const char* key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  // Not node_[key]: that compares by conversion and would insert into a non-const node.
  for (const auto& item : node_) {
    if (item.first.IsScalar() && item.first.Scalar() == key) return item.second;
  }
  return YAML::Node(YAML::NodeType::Undefined);
}

void YamlMap::Problem(const YAML::Node& node, std::string_view what) {
  problems_.Add(node, where_.empty() ? std::string(what) : base::StrCat(where_, ": ", what));
}

void YamlMap::Read(const char* key, std::string* value) {
  const YAML::Node node = Get(key);
  if (!node.IsDefined()) return;
  if (!node.IsScalar()) {
    return Problem(node, base::StrCat(key, " must be text, not ", Shown(node)));
  }
  *value = node.Scalar();
}

void YamlMap::Read(const char* key, bool* value) {
  const YAML::Node node = Get(key);
  if (!node.IsDefined()) return;
  if (!node.IsScalar() || !YAML::convert<bool>::decode(node, *value)) {
    Problem(node, base::StrCat(key, " must be true or false, not ", Shown(node)));
  }
}

void YamlMap::Read(const char* key, int64_t least, int64_t* value) {
  const YAML::Node node = Get(key);
  if (!node.IsDefined()) return;
  int64_t number = 0;
  if (!node.IsScalar() || !absl::SimpleAtoi(node.Scalar(), &number) || number < least) {
    return Problem(node, base::StrCat(key, " must be a whole number of at least ", least, ", not ",
                                      Shown(node)));
  }
  *value = number;
}

void YamlMap::Read(const char* key, double least, double most, float* value) {
  const YAML::Node node = Get(key);
  if (!node.IsDefined()) return;
  double number = 0.0;
  const bool is_number = node.IsScalar() && absl::SimpleAtod(node.Scalar(), &number);
  // The comparison is false for NaN, too.
  if (!is_number || !(number >= least && number <= most)) {
    const std::string range = most > 1e30 ? base::StrCat("of at least ", least)
                                          : base::StrCat("from ", least, " to ", most);
    return Problem(node, base::StrCat(key, " must be a number ", range, ", not ", Shown(node)));
  }
  *value = static_cast<float>(number);
}

void YamlMap::ReadChoice(const char* key, const std::vector<std::string>& names,
                         const std::function<void(size_t)>& choose) {
  const YAML::Node node = Get(key);
  if (!node.IsDefined()) return;
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return choose(static_cast<size_t>(found - names.begin()));
  const std::string nearest = base::Nearest(text, names);
  Problem(node,
          base::StrCat("unknown ", key, " ", Shown(node),
                       nearest.empty() ? "" : base::StrCat(" (did you mean '", nearest, "'?)"),
                       "; choose ", absl::StrJoin(names, ", ")));
}

void YamlMap::Finish() {
  std::set<std::string> seen;
  for (const auto& item : node_) {
    if (!item.first.IsScalar()) {
      Problem(item.first, "keys must be plain words");
      continue;
    }
    const std::string& key = item.first.Scalar();
    if (!seen.insert(key).second) Problem(item.first, base::StrCat("'", key, "' is given twice"));
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::string nearest = base::Nearest(key, known_);
    Problem(item.first,
            base::StrCat("unknown key ", Shown(item.first),
                         nearest.empty() ? base::StrCat("; known are ", absl::StrJoin(known_, ", "))
                                         : base::StrCat("; did you mean '", nearest, "'?")));
  }
}

}  // namespace trainer
