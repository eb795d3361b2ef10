// What the reading of a configuration takes from the machine, as a value, so that tests give their
// own.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "operator/kube/config.h"

namespace kube {

struct ConfigEnvironment {
  std::function<std::string(const char*)> getenv;  // "" = not set
  std::string service_account = "/var/run/secrets/kubernetes.io/serviceaccount";
  base::Clock* clock = base::Clock::Real();
};

absl::StatusOr<Config> LoadConfigFrom(const ConfigSource& source,
                                      const ConfigEnvironment& environment);

}  // namespace kube
