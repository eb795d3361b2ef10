// Reads the paths and queries that the fake API server is asked for.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "operator/kube/fake_apiserver.h"

namespace kube {

struct FakeTarget {
  FakeCall call;  // verb and path
  std::map<std::string, std::string> query;
};
// nullopt: no path of the Kubernetes API.
std::optional<FakeTarget> ParseFakeTarget(const Request& request);

// What the query gives for `key`, "" where it has none.
std::string QueryText(const std::map<std::string, std::string>& query, const char* key);

}  // namespace kube
