// Reads the typed fields of one JSON object and notes everything that is wrong by path: wrong types
// as errors, fields that nobody asked for as warnings with the nearest known name. Null counts as
// absent.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "operator/api/tfjob.h"

namespace tfjob {

// Not thread-safe. Borrows the JSON and the result, which must outlive it.
class ObjectReader {
 public:
  // `json` may be null (absent) or of a wrong type (an error is noted); reads then find nothing.
  ObjectReader(const Json* json, std::string path, ParsedTfJob* result);

  // The field, nullptr when absent or null. Marks it as known.
  const Json* Raw(const std::string& key);
  std::string String(const std::string& key);
  std::optional<std::string> OptionalString(const std::string& key);
  bool Bool(const std::string& key);
  std::optional<int64_t> Integer(const std::string& key,
                                 int64_t min = std::numeric_limits<int64_t>::min(),
                                 int64_t max = std::numeric_limits<int64_t>::max());
  std::optional<int32_t> Int32(const std::string& key);
  std::map<std::string, std::string> StringMap(const std::string& key);
  // The entries of a list; one of another type, or out of range, is an error and is left out.
  std::vector<std::string> Strings(const std::string& key);
  std::vector<int64_t> Integers(const std::string& key, int64_t min, int64_t max);
  std::optional<absl::Time> Time(const std::string& key);
  ObjectReader Object(const std::string& key);
  // The objects of a list; an entry that is no object is an error and is left out.
  std::vector<ObjectReader> Objects(const std::string& key);

  // The path of a field of this object: "spec.replicas".
  std::string PathOf(const std::string& key) const;
  void Error(const std::string& key, const std::string& type, const std::string& message);
  void Warn(const std::string& key, const std::string& message);
  // Marks fields as known without reading them.
  void Know(const std::vector<std::string>& keys);
  // Warns of each field that was neither read nor marked.
  void WarnUnknown();
  bool absent() const { return json_ == nullptr; }

 private:
  // The list under `key`; empty where there is none, or no list (an error is noted).
  const Json& List(const std::string& key);

  const Json* json_;
  std::string path_;
  ParsedTfJob* result_;
  std::vector<std::string> known_;
};

// "a string", "an integer", … for messages.
std::string TypeName(const Json& value);

}  // namespace tfjob
