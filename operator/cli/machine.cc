#include "operator/cli/machine.h"

#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/str_cat.h"

namespace tfjob {

namespace fs = std::filesystem;

int Cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

int64_t MemoryBytes() {
  struct sysinfo info;
  return sysinfo(&info) == 0 ? static_cast<int64_t>(info.totalram) * info.mem_unit : 0;
}

std::string NodeName() {
  char name[256] = "";
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

Environment ToMap(const std::vector<std::string>& environment) {
  Environment map;
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos && equals > 0)
      map[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return map;
}

int TerminalWidth() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

absl::Status MakeWorkFolder(const std::string& folder) {
  for (const char* part : {"logs", "root", "volumes", "pods"}) {
    std::error_code error;
    fs::create_directories(fs::path(folder) / part, error);
    if (error) {
      return absl::InvalidArgumentError(base::StrCat("cannot make the work folder ", folder, ": ",
                                                     error.message(),
                                                     "; choose another with --work_dir"));
    }
  }
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::path(folder) / "logs", ignored)) {
    if (entry.path().extension() == ".log") fs::remove(entry.path(), ignored);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> AbsolutePath(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (!error) return absolute.lexically_normal().string();
  return absl::InvalidArgumentError(base::StrCat(path, ": ", error.message()));
}

Signals::Signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGWINCH}) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  fd_ = Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

std::vector<int> Signals::Take() {
  std::vector<int> numbers;
  signalfd_siginfo info;
  while (read(fd_.get(), &info, sizeof(info)) == sizeof(info)) {
    numbers.push_back(static_cast<int>(info.ssi_signo));
  }
  return numbers;
}

}  // namespace tfjob
