// Reads one YAML mapping key by key, collecting problems with their lines instead of stopping at
// the first.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

// Problems of one file, in the order of its lines.
class YamlProblems {
 public:
  // line: 0-based, as yaml-cpp counts; -1 = the file as a whole.
  void Add(int line, std::string_view what);
  void Add(const YAML::Node& node, std::string_view what) { Add(node.Mark().line, what); }
  bool empty() const { return problems_.empty(); }
  // "origin:line: what", one a line.
  std::string Report(std::string_view origin) const;

 private:
  struct Problem {
    int line;
    std::string what;
  };
  std::vector<Problem> problems_;
};

// A mapping being read. Each Read takes a key: it stores the value if it is there and right, and
// reports it if it is wrong. Finish reports the keys that nobody asked for, and duplicates.
class YamlMap {
 public:
  // `where` names the mapping in messages: "", "layer 2".
  YamlMap(const YAML::Node& node, std::string where, YamlProblems* problems);

  bool Has(const char* key);
  // The node of `key`; undefined if it is not there.
  YAML::Node Get(const char* key);

  void Read(const char* key, std::string* value);
  void Read(const char* key, bool* value);
  // Whole numbers of at least `least`.
  void Read(const char* key, int64_t least, int64_t* value);
  // Finite numbers in [least, most].
  void Read(const char* key, double least, double most, float* value);
  // One of `names`; its index goes to `choose`.
  void ReadChoice(const char* key, const std::vector<std::string>& names,
                  const std::function<void(size_t)>& choose);

  void Problem(const YAML::Node& node, std::string_view what);
  void Finish();

 private:
  YAML::Node node_;
  std::string where_;
  YamlProblems& problems_;
  std::vector<std::string> known_;
};

}  // namespace trainer
