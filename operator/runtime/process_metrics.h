// What the process itself uses, under the names that every Prometheus client library gives it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "operator/runtime/metrics.h"

namespace runtime {

// Of /proc/PID/stat, in clock ticks, bytes and pages as it has them.
struct ProcessStat {
  double cpu_ticks = 0.0;    // user and system
  double start_ticks = 0.0;  // since boot
  double virtual_bytes = 0.0;
  double resident_pages = 0.0;
};
// nullopt if it is not in that format.
std::optional<ProcessStat> ParseProcessStat(const std::string& text);

// process_{cpu_seconds_total,resident_memory_bytes,virtual_memory_bytes,start_time_seconds,
// open_fds,max_fds}. Keep what it returns as long as they are to be kept up to date.
[[nodiscard]] std::unique_ptr<Sampler> SampleProcess(Metrics* metrics);

}  // namespace runtime
