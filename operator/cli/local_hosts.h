// Names of a cluster as addresses of this machine, for manifests that spell their hosts out
// (--ps_hosts=mnist-ps-0:2222). PURE.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace tfjob {

struct LocalHost {
  int port = 0;           // what the manifest and its service say
  std::string address;    // host:port on this machine
  std::string subdomain;  // that the job asks for; "": none
};
// By name of pod and service: mnist-ps-0.
using LocalHosts = std::map<std::string, LocalHost>;

// Replaces <name>:<port>, <name>.<namespace>:<port> and <name>.<namespace>.svc[.<domain>]:<port> of
// known hosts, and the same with <name>.<subdomain> in place of <name>. Everything else stays.
std::string RewriteHosts(std::string_view text, const LocalHosts& hosts,
                         std::string_view namespace_name);

}  // namespace tfjob
