#include "operator/runtime/log_throttle.h"

namespace runtime {
namespace {

constexpr absl::Duration kPeriod = absl::Minutes(1);

}  // namespace

bool LogThrottle::Allows(const std::string& cause) {
  const absl::Time now = clock_.Now();
  // Causes may be many over months (names of holders): those whose time has passed are forgotten.
  std::erase_if(last_, [now](const auto& entry) { return now - entry.second >= kPeriod; });
  return last_.try_emplace(cause, now).second;
}

}  // namespace runtime
