#include "operator/kube/yaml_strings.h"

#include <yaml-cpp/yaml.h>

#include <stdexcept>

#include "absl/strings/str_cat.h"

namespace kube {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxBytes = 4 << 20;
constexpr int kMaxValues = 20'000;
constexpr int kMaxYamlDepth = 32;

struct Refused : std::runtime_error {
  Refused(int at, const std::string& what) : std::runtime_error(what), line(at) {}
  int line;
};

class Converter {
 public:
  Json Convert(const YAML::Node& node, int depth) {
    const int line = node.Mark().line + 1;
    if (++values_ > kMaxValues) {
      throw Refused(line, absl::StrCat("more than ", kMaxValues, " values, aliases expanded"));
    }
    if (depth > kMaxYamlDepth) {
      throw Refused(line, absl::StrCat("nested deeper than ", kMaxYamlDepth, " levels"));
    }
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        return node.Scalar();
      case YAML::NodeType::Sequence: {
        Json out = Json::array();
        for (const YAML::Node& entry : node) out.push_back(Convert(entry, depth + 1));
        return out;
      }
      case YAML::NodeType::Map:
        return ConvertMap(node, depth);
      case YAML::NodeType::Null:
      case YAML::NodeType::Undefined:
        return nullptr;
    }
    return nullptr;
  }

 private:
  Json ConvertMap(const YAML::Node& node, int depth) {
    Json out = Json::object();
    for (const auto& field : node) {
      const int line = field.first.Mark().line + 1;
      if (!field.first.IsScalar()) throw Refused(line, "a key must be text");
      const std::string& key = field.first.Scalar();
      if (out.contains(key)) {
        throw Refused(line, absl::StrCat("the key \"", key, "\" is given twice"));
      }
      out[key] = Convert(field.second, depth + 1);
    }
    return out;
  }

  int values_ = 0;
};

absl::Status At(const std::string& file, int line, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(file, ":", line, ": ", what));
}

}  // namespace

absl::StatusOr<Json> ReadYamlStrings(const std::string& file, std::string_view text) {
  if (text.size() > kMaxBytes) {
    return At(file, 1, absl::StrCat("larger than ", kMaxBytes, " bytes"));
  }
  try {
    return Converter().Convert(YAML::Load(std::string(text)), 0);
  } catch (const Refused& refused) {
    return At(file, refused.line, refused.what());
  } catch (const YAML::Exception& error) {
    return At(file, error.mark.line + 1, absl::StrCat("not valid YAML: ", error.msg));
  } catch (const std::exception& error) {
    return At(file, 1, absl::StrCat("not valid YAML: ", error.what()));
  }
}

}  // namespace kube
