#include "operator/api/quantity.h"

#include <cmath>
#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tfjob {
namespace {

// Suffixes of the Kubernetes API's resource.Quantity; the empty one is for plain numbers.
const std::map<std::string, double>& Suffixes() {
  static const auto* const suffixes = new std::map<std::string, double>{
      {"", 1},        {"n", 1e-9},    {"u", 1e-6},    {"m", 1e-3},   {"k", 1e3},     {"M", 1e6},
      {"G", 1e9},     {"T", 1e12},    {"P", 1e15},    {"E", 1e18},   {"Ki", 0x1p10}, {"Mi", 0x1p20},
      {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"Pi", 0x1p50}, {"Ei", 0x1p60}};
  return *suffixes;
}

}  // namespace

absl::StatusOr<double> ParseQuantity(std::string_view text) {
  const auto invalid = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", std::string(text), "\" is not a quantity like 2, 500m or 1.5Gi"));
  };
  const size_t digits = text.find_first_not_of("+-.0123456789");
  size_t number_end = digits == std::string_view::npos ? text.size() : digits;
  // An exponent is part of the number: 1e3, 1E3. A bare E is the suffix for exa.
  if (number_end + 1 < text.size() && (text[number_end] == 'e' || text[number_end] == 'E') &&
      text.find_first_not_of("+-0123456789", number_end + 1) == std::string_view::npos) {
    number_end = text.size();
  }
  const auto suffix = Suffixes().find(std::string(text.substr(number_end)));
  double value = 0;
  if (suffix == Suffixes().end() ||
      !absl::SimpleAtod(std::string(text.substr(0, number_end)), &value) || !std::isfinite(value)) {
    return invalid();
  }
  return value * suffix->second;
}

}  // namespace tfjob
