#include "operator/cli/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace tfjob {
namespace {

// Where the supervisor's descriptors are moved to, so that all others can be closed at one stroke.
constexpr int kStartFd = 3;
constexpr int kLifeFd = 4;

[[noreturn]] void Fail(StartReport::Stage stage, int error, int step = -1) {
  const StartReport report{stage, error, step};
  // Nobody to tell if this fails.
  [[maybe_unused]] const ssize_t written = write(kStartFd, &report, sizeof(report));
  _exit(error == ENOENT ? kCommandNotFound : kCannotExecute);
}

bool WriteFile(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const auto size = static_cast<ssize_t>(std::strlen(text));
  const bool ok = write(fd, text, size) == size;
  return close(fd) == 0 && ok;
}

void CloseFrom(int first) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, first, ~0U, 0) == 0) return;
#endif
  for (int fd = first; fd < 4096; ++fd) close(fd);
}

// Moves the plan's descriptors to their places: 0 null, 1 and 2 output, 3 start, 4 life; closes the
// rest.
void ArrangeFds(const SupervisorPlan& plan) {
  // Above every target first, so that no move overwrites what is still needed.
  const int output = fcntl(plan.output, F_DUPFD, 10);
  const int start = fcntl(plan.start, F_DUPFD, 10);
  const int life = fcntl(plan.life, F_DUPFD, 10);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);
  dup2(output, 1);
  dup2(output, 2);
  dup3(start, kStartFd, O_CLOEXEC);
  if (life < 0 || dup3(life, kLifeFd, O_CLOEXEC) < 0) close(kLifeFd);
  CloseFrom(5);
}

void EnterNamespaces(const SupervisorPlan& plan) {
  if (plan.spec->isolation == Isolation::kUser) {
    // Group maps are only ours to write once setgroups is given up.
    const bool ok = WriteFile("/proc/self/setgroups", "deny") &&
                    WriteFile("/proc/self/uid_map", plan.uid_map) &&
                    WriteFile("/proc/self/gid_map", plan.gid_map);
    if (!ok) Fail(StartReport::Stage::kNamespace, errno);
  }
  if (plan.spec->isolation == Isolation::kNone) return;
  if (plan.spec->share_pids && plan.spec->root.empty()) return;
  const SandboxFailure failure = EnterRoot(plan.spec->root, plan.spec->new_root.c_str());
  if (failure.error != 0) Fail(StartReport::Stage::kMount, failure.error, failure.step);
}

void ResetSignals() {
  for (int signal_number = 1; signal_number < NSIG; ++signal_number) signal(signal_number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void RunCommand(const SupervisorPlan& plan) {
  setsid();  // a process group to signal, and no terminal to be interrupted by
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  ResetSignals();
  const std::string& working_dir = plan.spec->working_dir;
  if (!working_dir.empty() && chdir(working_dir.c_str()) != 0)
    Fail(StartReport::Stage::kWorkingDir, errno);
  int error = ENOENT;
  for (const std::string& path : plan.spec->executables) {
    execve(path.c_str(), plan.argv, plan.environment);
    if (errno != ENOENT && errno != ENOTDIR) error = errno;
  }
  Fail(StartReport::Stage::kExec, error);
}

int ExitCode(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Reaps what has ended. True once the command itself has, with its code in `code`.
bool Reap(pid_t command, int* code) {
  bool ended = false;
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (pid != command) continue;
    *code = ExitCode(status);
    ended = true;
  }
  return ended;
}

[[noreturn]] void Watch(pid_t command) {
  sigset_t all;
  sigfillset(&all);
  for (;;) {
    siginfo_t info;
    const int signal_number = sigwaitinfo(&all, &info);
    int code = 0;
    if (signal_number == SIGCHLD) {
      if (!Reap(command, &code)) continue;
      KillChildren();
      _exit(code);
    }
    if (signal_number == KillSignal()) {
      KillChildren();
      _exit(128 + SIGKILL);
    }
    // The group exists once the command has called setsid.
    if (signal_number > 0 && kill(-command, signal_number) != 0) kill(command, signal_number);
  }
}

// The children of this process, by the kernel's own list. Returns how many were killed.
int KillListedChildren() {
  const int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[4096];
  const ssize_t size = read(fd, text, sizeof(text) - 1);
  close(fd);
  int killed = 0;
  pid_t pid = 0;
  for (ssize_t i = 0; i < size; ++i) {
    if (text[i] >= '0' && text[i] <= '9') {
      pid = pid * 10 + (text[i] - '0');
      continue;
    }
    if (pid > 0 && kill(pid, SIGKILL) == 0) ++killed;
    pid = 0;
  }
  return killed;
}

}  // namespace

int KillSignal() { return SIGUSR1; }

void KillChildren() {
  // As init of a PID namespace: everybody but ourselves, and exiting would do it anyhow.
  if (getpid() == 1) kill(-1, SIGKILL);
  int status = 0;
  for (;;) {
    if (waitpid(-1, &status, WNOHANG) < 0) return;  // no children left
    if (KillListedChildren() == 0) return;          // none that we may kill, or no list
    if (waitpid(-1, &status, 0) < 0) return;
  }
}

void Supervise(const SupervisorPlan& plan) {
  for (int signal_number = 1; signal_number < NSIG; ++signal_number) signal(signal_number, SIG_DFL);
  ArrangeFds(plan);
  // As init, dying takes all along; otherwise there are children to kill first.
  prctl(PR_SET_PDEATHSIG, getpid() == 1 ? SIGKILL : KillSignal());
  struct pollfd life{kLifeFd, POLLIN, 0};
  // The program may have died before the line above. A closed descriptor says POLLNVAL: not known.
  if (poll(&life, 1, 0) > 0 && (life.revents & POLLNVAL) == 0) _exit(128 + SIGKILL);
  setsid();
  prctl(PR_SET_NAME, "trainyard-init");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  EnterNamespaces(plan);
  const auto command =
      static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (command < 0) Fail(StartReport::Stage::kFork, errno);
  if (command == 0) RunCommand(plan);
  CloseFrom(3);
  // The command alone holds the log's pipe, so that its end is the log's end.
  close(1);
  close(2);
  Watch(command);
}

}  // namespace tfjob
