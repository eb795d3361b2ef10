#include "operator/api/object_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/nearest.h"

namespace tfjob {

std::string TypeName(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "an integer";
    default:
      return "a number";
  }
}

ObjectReader::ObjectReader(const Json* json, std::string path, ParsedTfJob* result)
    : json_(json), path_(std::move(path)), result_(result) {
  if (json_ != nullptr && json_->is_null()) json_ = nullptr;
  if (json_ != nullptr && !json_->is_object()) {
    result_->errors.push_back(
        {path_, absl::StrCat("must be an object, not ", TypeName(*json_)), "Invalid value"});
    json_ = nullptr;
  }
}

const Json* ObjectReader::Raw(const std::string& key) {
  known_.push_back(key);
  if (json_ == nullptr) return nullptr;
  const auto it = json_->find(key);
  return it == json_->end() || it->is_null() ? nullptr : &*it;
}

std::string ObjectReader::String(const std::string& key) {
  return OptionalString(key).value_or("");
}

std::optional<std::string> ObjectReader::OptionalString(const std::string& key) {
  const Json* value = Raw(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Error(key, "Invalid value",
        absl::StrCat("must be a string, not ", TypeName(*value), "; put it in quotes"));
  return std::nullopt;
}

bool ObjectReader::Bool(const std::string& key) {
  const Json* value = Raw(key);
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  Error(key, "Invalid value", absl::StrCat("must be true or false, not ", TypeName(*value)));
  return false;
}

std::optional<int64_t> ObjectReader::Integer(const std::string& key, int64_t min, int64_t max) {
  const Json* value = Raw(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) {
    Error(key, "Invalid value", absl::StrCat("must be an integer, not ", TypeName(*value)));
    return std::nullopt;
  }
  const bool too_large = value->is_number_unsigned() &&
                         value->get<uint64_t>() > static_cast<uint64_t>(std::max<int64_t>(max, 0));
  if (too_large || value->get<int64_t>() < min || value->get<int64_t>() > max) {
    Error(key, "Invalid value",
          absl::StrCat(value->dump(), " is out of range: from ", min, " to ", max));
    return std::nullopt;
  }
  return value->get<int64_t>();
}

std::optional<int32_t> ObjectReader::Int32(const std::string& key) {
  const std::optional<int64_t> value =
      Integer(key, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  if (!value) return std::nullopt;
  return static_cast<int32_t>(*value);
}

std::map<std::string, std::string> ObjectReader::StringMap(const std::string& key) {
  std::map<std::string, std::string> map;
  const Json* value = Raw(key);
  if (value == nullptr) return map;
  if (!value->is_object()) {
    Error(key, "Invalid value",
          absl::StrCat("must be an object of strings, not ", TypeName(*value)));
    return map;
  }
  for (const auto& [name, entry] : value->items()) {
    if (entry.is_string()) {
      map[name] = entry.get<std::string>();
    } else if (!entry.is_null()) {
      Error(absl::StrCat(key, "[", name, "]"), "Invalid value",
            absl::StrCat("must be a string, not ", TypeName(entry), "; put it in quotes"));
    }
  }
  return map;
}

std::optional<absl::Time> ObjectReader::Time(const std::string& key) {
  const std::optional<std::string> text = OptionalString(key);
  if (!text) return std::nullopt;
  absl::Time time;
  if (absl::ParseTime(absl::RFC3339_full, *text, &time, nullptr)) return time;
  Error(key, "Invalid value",
        absl::StrCat("\"", *text, "\" is not a time like 2026-01-02T03:04:05Z"));
  return std::nullopt;
}

std::vector<std::string> ObjectReader::Strings(const std::string& key) {
  std::vector<std::string> strings;
  for (const Json& entry : List(key)) {
    if (entry.is_string()) {
      strings.push_back(entry.get<std::string>());
    } else {
      Error(key, "Invalid value", absl::StrCat("must be a list of strings, not of ", entry.dump()));
    }
  }
  return strings;
}

std::vector<int64_t> ObjectReader::Integers(const std::string& key, int64_t min, int64_t max) {
  std::vector<int64_t> integers;
  for (const Json& entry : List(key)) {
    const bool fits = entry.is_number_integer() &&
                      entry.get<double>() >= static_cast<double>(min) &&
                      entry.get<double>() <= static_cast<double>(max);
    if (fits) {
      integers.push_back(entry.get<int64_t>());
    } else {
      Error(key, "Invalid value",
            absl::StrCat(entry.dump(), " is no integer from ", min, " to ", max));
    }
  }
  return integers;
}

ObjectReader ObjectReader::Object(const std::string& key) {
  return ObjectReader(Raw(key), PathOf(key), result_);
}

const Json& ObjectReader::List(const std::string& key) {
  static const auto* const kEmpty = new Json(Json::array());
  const Json* value = Raw(key);
  if (value == nullptr) return *kEmpty;
  if (value->is_array()) return *value;
  Error(key, "Invalid value", absl::StrCat("must be a list, not ", TypeName(*value)));
  return *kEmpty;
}

std::vector<ObjectReader> ObjectReader::Objects(const std::string& key) {
  std::vector<ObjectReader> readers;
  const Json& list = List(key);
  for (size_t i = 0; i < list.size(); ++i) {
    ObjectReader reader(&list[i], absl::StrCat(PathOf(key), "[", i, "]"), result_);
    if (!reader.absent()) readers.push_back(std::move(reader));
  }
  return readers;
}

std::string ObjectReader::PathOf(const std::string& key) const {
  return path_.empty() ? key : absl::StrCat(path_, ".", key);
}

void ObjectReader::Error(const std::string& key, const std::string& type,
                         const std::string& message) {
  result_->errors.push_back({PathOf(key), message, type});
}

void ObjectReader::Warn(const std::string& key, const std::string& message) {
  result_->warnings.push_back({PathOf(key), message, "Warning"});
}

void ObjectReader::Know(const std::vector<std::string>& keys) {
  known_.insert(known_.end(), keys.begin(), keys.end());
}

void ObjectReader::WarnUnknown() {
  if (json_ == nullptr) return;
  for (const auto& [key, value] : json_->items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::string nearest = base::Nearest(key, known_);
    Warn(key, nearest.empty() ? std::string("unknown field; it has no effect")
                              : absl::StrCat("unknown field; did you mean \"", nearest, "\"?"));
  }
}

}  // namespace tfjob
