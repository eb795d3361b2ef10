#include "base/json_read.h"

namespace base {

const Json& At(const Json& object, std::string_view key) {
  static const auto* const kNull = new Json();
  if (!object.is_object()) return *kNull;
  const auto found = object.find(std::string(key));
  return found == object.end() ? *kNull : *found;
}

const Json& At(const Json& object, std::string_view a, std::string_view b) {
  return At(At(object, a), b);
}

const Json& ArrayAt(const Json& object, std::string_view key) {
  static const auto* const kEmpty = new Json(Json::array());
  const Json& value = At(object, key);
  return value.is_array() ? value : *kEmpty;
}

std::string StringAt(const Json& object, std::string_view key) {
  const Json& value = At(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

bool BoolAt(const Json& object, std::string_view key) {
  const Json& value = At(object, key);
  return value.is_boolean() && value.get<bool>();
}

std::optional<absl::Time> TimeAt(const Json& object, std::string_view key) {
  absl::Time time;
  std::string error;
  const bool is_time = absl::ParseTime(absl::RFC3339_full, StringAt(object, key), &time, &error);
  return is_time ? std::make_optional(time) : std::nullopt;
}

std::string Scalar(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "";
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace base
