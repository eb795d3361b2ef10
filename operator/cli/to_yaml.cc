#include "operator/cli/to_yaml.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "operator/cli/yaml_scalar.h"

namespace tfjob {
namespace {

constexpr int kIndent = 2;
// YAML 1.2, 7.4: a key without "? " in front lies on one line of at most 1024 characters.
constexpr size_t kLongestSimpleKey = 1000;

std::string Compact(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Needs no quotes: reads back as the same string, in YAML 1.1 and 1.2.
bool IsPlain(const std::string& text) {
  const auto safe = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("-_./:=@%+, ()$*").find(c) != std::string_view::npos;
  };
  if (text.empty() || !std::all_of(text.begin(), text.end(), safe)) return false;
  // Not a digit either: readers differ on dates and on 1:20.
  const char first = text.front();
  if (!absl::ascii_isalpha(static_cast<unsigned char>(first)) && first != '/' && first != '_' &&
      first != '$') {
    return false;
  }
  if (text.back() == ' ' || text.back() == ':' || text.find(": ") != std::string::npos)
    return false;
  const std::optional<Json> value = ResolveScalar(text);
  return value && value->is_string();
}

// Lines of text that a literal block can hold as they are.
bool IsLiteral(const std::string& text) {
  if (text.find('\n') == std::string::npos || text.front() == '\n' || text.front() == ' ')
    return false;
  if (text.ends_with("\n\n") || text.ends_with(' ')) return false;
  if (text.find(" \n") != std::string::npos) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F && (c & 0x80) == 0);
  });
}

// JSON inside a string, as in TF_CONFIG, stays readable in single quotes.
bool IsBetterInSingleQuotes(const std::string& text) {
  return text.find_first_of("\"\\") != std::string::npos &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
}

std::string Scalar(const Json& value) {
  if (!value.is_string()) return Compact(value);
  const std::string& text = value.get_ref<const std::string&>();
  if (IsPlain(text)) return text;
  if (!IsBetterInSingleQuotes(text)) return Compact(value);
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "''"}}), "'");
}

class Writer {
 public:
  std::string Take() && { return std::move(out_); }

  // `value` after "key:" or "-", at the indentation of its own children.
  void Value(const Json& value, int indent) {
    if (value.is_object() && !value.empty()) {
      out_ += "\n";
      Object(value, indent);
    } else if (value.is_array() && !value.empty()) {
      out_ += "\n";
      List(value, indent);
    } else if (value.is_string() && IsLiteral(value.get_ref<const std::string&>())) {
      Literal(value.get_ref<const std::string&>(), indent);
    } else {
      absl::StrAppend(&out_, " ", Scalar(value), "\n");
    }
  }

  void Object(const Json& object, int indent) {
    for (const auto& [key, value] : object.items()) {
      out_ += std::string(indent, ' ');
      Field(key, value, indent);
    }
  }

  void List(const Json& list, int indent) {
    for (const Json& entry : list) {
      absl::StrAppend(&out_, std::string(indent, ' '), "-");
      if (!entry.is_object() || entry.empty()) {
        Value(entry, indent + kIndent);
        continue;
      }
      // The first field stands beside the dash.
      bool first = true;
      for (const auto& [key, value] : entry.items()) {
        out_ += first ? " " : std::string(indent + kIndent, ' ');
        first = false;
        Field(key, value, indent + kIndent);
      }
    }
  }

 private:
  void Field(const std::string& key, const Json& value, int indent) {
    const std::string name = Scalar(Json(key));
    if (name.size() > kLongestSimpleKey) {
      absl::StrAppend(&out_, "? ", name, "\n", std::string(indent, ' '), ":");
      return Value(value, indent + kIndent);
    }
    absl::StrAppend(&out_, name, ":");
    Value(value, value.is_array() ? indent : indent + kIndent);
  }

  void Literal(const std::string& text, int indent) {
    const bool keeps_end = text.back() == '\n';
    out_ += keeps_end ? " |\n" : " |-\n";
    const std::string body = keeps_end ? text.substr(0, text.size() - 1) : text;
    for (const absl::string_view line : absl::StrSplit(body, '\n')) {
      if (!line.empty()) out_ += std::string(indent, ' ');
      out_.append(line.data(), line.size());
      out_ += "\n";
    }
  }

  std::string out_;
};

}  // namespace

std::string ToYaml(const Json& value) {
  Writer writer;
  if (value.is_object() && !value.empty()) {
    writer.Object(value, 0);
    return std::move(writer).Take();
  }
  if (value.is_array() && !value.empty()) {
    writer.List(value, 0);
    return std::move(writer).Take();
  }
  return absl::StrCat(Compact(value), "\n");
}

}  // namespace tfjob
