#include "operator/runtime/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>

namespace runtime {
namespace {

std::string ReadFile(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Seconds since the epoch at which the machine was started; 0 = not known.
double BootTime() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    double seconds = 0.0;
    if (words >> key >> seconds && key == "btime") return seconds;
  }
  return 0.0;
}

double OpenFiles() {
  std::error_code error;
  double count = 0.0;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    ++count;
  }
  return count > 0.0 ? count - 1.0 : 0.0;  // without the one that looks
}

double MostOpenFiles() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<double>(limit.rlim_cur) : 0.0;
}

}  // namespace

std::optional<ProcessStat> ParseProcessStat(const std::string& text) {
  // The second field is the program's name in parentheses, and may itself have any character.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(text.substr(name_end + 1));
  std::string skipped;
  const auto skip = [&](int fields) {
    for (int i = 0; i < fields; ++i) rest >> skipped;
  };
  ProcessStat stat;
  double system_ticks = 0.0;
  skip(11);  // fields 3 to 13
  rest >> stat.cpu_ticks >> system_ticks;
  stat.cpu_ticks += system_ticks;
  skip(6);  // fields 16 to 21
  rest >> stat.start_ticks >> stat.virtual_bytes >> stat.resident_pages;
  if (!rest) return std::nullopt;
  return stat;
}

std::unique_ptr<Sampler> SampleProcess(Metrics* metrics) {
  Counter* const cpu = metrics->GetCounter("process_cpu_seconds_total",
                                           "User and system CPU time spent, in seconds.");
  Gauge* const resident =
      metrics->GetGauge("process_resident_memory_bytes", "Resident memory size in bytes.");
  Gauge* const virtual_memory =
      metrics->GetGauge("process_virtual_memory_bytes", "Virtual memory size in bytes.");
  Gauge* const start = metrics->GetGauge("process_start_time_seconds",
                                         "Start time of the process since the epoch, in seconds.");
  Gauge* const open = metrics->GetGauge("process_open_fds", "Open file descriptors.");
  Gauge* const most = metrics->GetGauge("process_max_fds", "Most open file descriptors allowed.");
  const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const double page_bytes = static_cast<double>(::sysconf(_SC_PAGESIZE));
  const double boot = BootTime();
  return metrics->AddSampler([=] {
    open->Set(OpenFiles());
    most->Set(MostOpenFiles());
    const std::optional<ProcessStat> stat = ParseProcessStat(ReadFile("/proc/self/stat"));
    if (!stat) return;
    cpu->RaiseTo(stat->cpu_ticks / ticks);
    resident->Set(stat->resident_pages * page_bytes);
    virtual_memory->Set(stat->virtual_bytes);
    start->Set(boot + stat->start_ticks / ticks);
  });
}

}  // namespace runtime
