#include "operator/runtime/listen_address.h"

#include <charconv>

#include "base/exit_codes.h"
#include "base/str_cat.h"

namespace runtime {
namespace {

absl::Status Malformed(std::string_view text, std::string_view problem) {
  return base::UsageError(base::StrCat("\"", text, "\" is no address to listen on: ", problem,
                                       "; write \":8080\" (all addresses), \"127.0.0.1:8080\" or "
                                       "\"[::1]:8080\", or \"0\" for none"));
}

}  // namespace

absl::StatusOr<std::optional<ListenAddress>> ParseListenAddress(std::string_view text) {
  if (text.empty() || text == "0") return std::nullopt;
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return Malformed(text, "the port is missing");
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  int port = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port < 0 || port > 65535) {
    return Malformed(text, "the port is not a number from 0 to 65535");
  }
  if (!host.empty() && host.front() == '[') {
    if (host.back() != ']') return Malformed(text, "the ] is missing");
    host = host.substr(1, host.size() - 2);
    if (host.empty()) return Malformed(text, "nothing is between [ and ]");
  } else if (host.find(':') != std::string_view::npos) {
    return Malformed(text, "an IPv6 address belongs into [ ]");
  }
  return ListenAddress{std::string(host), port};
}

absl::StatusOr<std::optional<ListenAddress>> ParseListenFlag(const std::string& flag,
                                                             const std::string& text) {
  absl::StatusOr<std::optional<ListenAddress>> address = ParseListenAddress(text);
  if (address.ok()) return address;
  return base::UsageError(base::StrCat(flag, ": ", std::string(address.status().message())));
}

}  // namespace runtime
