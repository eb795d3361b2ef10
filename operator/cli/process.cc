#include "operator/cli/process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "operator/cli/supervisor.h"

namespace tfjob {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

unsigned long CloneFlags(const ProcessSpec& spec) {
  unsigned long flags = SIGCHLD;
  if (spec.isolation == Isolation::kNone) return flags;
  if (spec.isolation == Isolation::kUser) flags |= CLONE_NEWUSER;
  return flags | CLONE_NEWNS | (spec.share_pids ? 0 : CLONE_NEWPID);
}

// What the step of a sandbox was about, for people.
std::string Describe(const ProcessSpec& spec, int step) {
  if (step < 0 || step >= static_cast<int>(spec.root.size()))
    return "cannot set up its mount namespace";
  const MountStep& failed = spec.root[step];
  std::string path = failed.target;
  if (path.starts_with(spec.new_root)) path.erase(0, spec.new_root.size());
  return base::StrCat("cannot mount ", failed.source.empty() ? "a volume" : failed.source, " at ",
                      path);
}

absl::Status ToStatus(const StartReport& report, const ProcessSpec& spec) {
  const std::string why = std::strerror(report.error);
  switch (report.stage) {
    case StartReport::Stage::kNamespace:
      return absl::InvalidArgumentError(base::StrCat("cannot set up its user namespace: ", why));
    case StartReport::Stage::kMount:
      return absl::InvalidArgumentError(base::StrCat(Describe(spec, report.step), ": ", why));
    case StartReport::Stage::kFork:
      return absl::UnavailableError(base::StrCat("cannot start a process: ", why));
    case StartReport::Stage::kWorkingDir:
      return absl::InvalidArgumentError(base::StrCat("workingDir ", spec.working_dir, ": ", why));
    case StartReport::Stage::kExec:
      break;
  }
  const std::string& command = spec.argv.front();
  if (report.error == ENOENT && command.find('/') == std::string::npos) {
    return absl::InvalidArgumentError(base::StrCat(
        "command \"", command, "\" is not on PATH of this machine: install it, or give its path"));
  }
  return absl::InvalidArgumentError(base::StrCat("cannot run \"", command, "\": ", why));
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = other.Release();
  }
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

int Fd::Release() { return std::exchange(fd_, -1); }

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return absl::UnavailableError(base::StrCat("cannot make a pipe: ", std::strerror(errno)));
  }
  return Pipe{Fd(fds[0]), Fd(fds[1])};
}

Fd OwnLife() { return Fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0))); }

absl::StatusOr<Process> StartProcess(const ProcessSpec& spec, int life) {
  ASSIGN_OR_RETURN(Pipe output, MakePipe());
  ASSIGN_OR_RETURN(Pipe start, MakePipe());
  const std::vector<char*> argv = Pointers(spec.argv);
  const std::vector<char*> environment = Pointers(spec.environment);
  const std::string uid_map = base::StrCat(geteuid(), " ", geteuid(), " 1\n");
  const std::string gid_map = base::StrCat(getegid(), " ", getegid(), " 1\n");
  const SupervisorPlan plan{.spec = &spec,
                            .argv = argv.data(),
                            .environment = environment.data(),
                            .uid_map = uid_map.c_str(),
                            .gid_map = gid_map.c_str(),
                            .output = output.write_end.get(),
                            .start = start.write_end.get(),
                            .life = life};
  // Blocked meanwhile: a signal that came before the supervisor waits for signals would be lost.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // The raw call: glibc's fork has no flags for namespaces, and the child only makes system calls.
  const long pid = syscall(SYS_clone, CloneFlags(spec), nullptr, nullptr, nullptr, nullptr);
  const int error = errno;
  if (pid == 0) Supervise(plan);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    return absl::UnavailableError(base::StrCat("cannot start a process: ", std::strerror(error)));
  }
  return Process{static_cast<pid_t>(pid), std::move(output.read_end), std::move(start.read_end)};
}

absl::Status ReadStart(int start_fd, const ProcessSpec& spec) {
  StartReport report;
  ssize_t size = 0;
  do {
    size = read(start_fd, &report, sizeof(report));
  } while (size < 0 && errno == EINTR);
  if (size != sizeof(report)) return absl::OkStatus();  // end of file: exec succeeded
  return ToStatus(report, spec);
}

void TerminateProcess(pid_t supervisor) { kill(supervisor, SIGTERM); }

void KillProcess(pid_t supervisor) { kill(supervisor, KillSignal()); }

void AdoptOrphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

void KillStrays() { KillChildren(); }

std::vector<std::string> Executables(const std::string& command, const std::string& path) {
  if (command.find('/') != std::string::npos) return {command};
  std::vector<std::string> paths;
  for (const std::string& folder : std::vector<std::string>(absl::StrSplit(path, ':'))) {
    paths.push_back(base::StrCat(folder.empty() ? "." : folder, "/", command));
  }
  return paths;
}

}  // namespace tfjob
