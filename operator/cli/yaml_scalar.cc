#include "operator/cli/yaml_scalar.h"

#include <charconv>
#include <cmath>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace tfjob {
namespace {

using Words = std::set<std::string, std::less<>>;

bool IsOneOf(const Words& words, std::string_view text) { return words.contains(text); }

const Words& Nulls() {
  static const auto* const words = new Words{"", "~", "null", "Null", "NULL"};
  return *words;
}

const Words& Trues() {
  static const auto* const words =
      new Words{"y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"};
  return *words;
}

const Words& Falses() {
  static const auto* const words =
      new Words{"n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"};
  return *words;
}

const Words& NotFinite() {
  static const auto* const words = new Words{".nan",  ".NaN",  ".NAN",  ".inf",  ".Inf",  ".INF",
                                             "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF"};
  return *words;
}

// 0b…, 0o…, 0x…, or a leading 0 for octal.
int TakeBase(std::string_view& digits) {
  if (digits.size() < 2 || digits[0] != '0') return 10;
  const char mark = absl::ascii_tolower(static_cast<unsigned char>(digits[1]));
  const int base = mark == 'x' ? 16 : mark == 'b' ? 2 : 8;
  digits.remove_prefix(base == 8 && mark != 'o' ? 1 : 2);
  return base;
}

std::optional<Json> ParseInteger(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const int base = TakeBase(text);
  if (text.empty() || text[0] == '-' || text[0] == '+') return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!negative) return value <= INT64_MAX ? Json(static_cast<int64_t>(value)) : Json(value);
  if (value > static_cast<uint64_t>(INT64_MAX) + 1) return std::nullopt;
  return Json(static_cast<int64_t>(0 - value));
}

// [-+]?(digits[.digits] | .digits)[e[-+]digits]
bool LooksLikeFloat(std::string_view text) {
  size_t i = 0;
  const auto digits = [&] {
    const size_t begin = i;
    while (i < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[i]))) ++i;
    return i - begin;
  };
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
  size_t mantissa = digits();
  if (i < text.size() && text[i] == '.') {
    ++i;
    mantissa += digits();
  }
  if (mantissa == 0) return false;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    if (digits() == 0) return false;
  }
  return i == text.size();
}

// Whole numbers become integers: JSON does not tell 2.0 from 2.
std::optional<Json> ParseFloat(const std::string& text) {
  double value = 0;
  if (!LooksLikeFloat(text) || !absl::SimpleAtod(text, &value)) return std::nullopt;
  if (!std::isfinite(value)) return std::nullopt;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::trunc(value) == value && std::abs(value) <= kExact) {
    return Json(static_cast<int64_t>(value));
  }
  return Json(value);
}

}  // namespace

std::optional<Json> ResolveScalar(std::string_view text) {
  if (IsOneOf(Nulls(), text)) return Json(nullptr);
  if (IsOneOf(Trues(), text)) return Json(true);
  if (IsOneOf(Falses(), text)) return Json(false);
  if (IsOneOf(NotFinite(), text)) return std::nullopt;
  const std::string_view first = "+-.0123456789";
  if (first.find(text[0]) == std::string_view::npos) return Json(std::string(text));
  std::string digits(text);
  std::erase(digits, '_');
  if (std::optional<Json> integer = ParseInteger(digits)) return integer;
  if (std::optional<Json> number = ParseFloat(digits)) return number;
  return Json(std::string(text));
}

}  // namespace tfjob
