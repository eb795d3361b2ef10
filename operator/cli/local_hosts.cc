#include "operator/cli/local_hosts.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

#include "base/str_cat.h"
#include "operator/cli/consume.h"

namespace tfjob {
namespace {

bool InHost(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
}

// Whether `host` is `name`, alone or with its subdomain, namespace and domain.
bool Names(std::string_view host, std::string_view name, std::string_view subdomain,
           std::string_view namespace_name) {
  if (!ConsumePrefix(host, name)) return false;
  if (!subdomain.empty()) ConsumePrefix(host, base::StrCat(".", subdomain));
  if (host.empty()) return true;
  if (!ConsumePrefix(host, base::StrCat(".", namespace_name))) return false;
  return host.empty() || host == ".svc" || host.starts_with(".svc.");
}

const LocalHost* Find(std::string_view host, std::string_view port, const LocalHosts& hosts,
                      std::string_view namespace_name) {
  int number = 0;
  const auto found = hosts.find(std::string(host.substr(0, host.find('.'))));
  if (found == hosts.end() || !absl::SimpleAtoi(base::AbslView(port), &number) ||
      number != found->second.port)
    return nullptr;
  return Names(host, found->first, found->second.subdomain, namespace_name) ? &found->second
                                                                            : nullptr;
}

}  // namespace

std::string RewriteHosts(std::string_view text, const LocalHosts& hosts,
                         std::string_view namespace_name) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = at;
    while (end < text.size() && InHost(text[end])) ++end;
    if (end == at) {
      out.push_back(text[at++]);
      continue;
    }
    size_t port_end = end < text.size() && text[end] == ':' ? end + 1 : end;
    while (port_end < text.size() &&
           absl::ascii_isdigit(static_cast<unsigned char>(text[port_end])))
      ++port_end;
    const std::string_view host = text.substr(at, end - at);
    const LocalHost* known =
        port_end > end ? Find(host, text.substr(end + 1, port_end - end - 1), hosts, namespace_name)
                       : nullptr;
    out.append(known != nullptr ? known->address : std::string(host));
    at = known != nullptr ? port_end : end;
  }
  return out;
}

}  // namespace tfjob
