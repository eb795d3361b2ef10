// Keeps a trouble that repeats from filling the log.
#pragma once

#include <map>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"

namespace runtime {

// Says yes once a minute for each cause. Not thread-safe.
class LogThrottle {
 public:
  explicit LogThrottle(base::Clock* clock) : clock_(*clock) {}
  bool Allows(const std::string& cause);

 private:
  base::Clock& clock_;
  std::map<std::string, absl::Time> last_;
};

}  // namespace runtime
