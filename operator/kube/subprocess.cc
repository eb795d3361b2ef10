#include "operator/kube/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace kube {
namespace {

constexpr size_t kMaxOut = 1 << 20;
constexpr size_t kMaxErr = 2 << 10;

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { Reset(-1); }
  void Reset(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

absl::Status MakePipe(Fd* read_end, Fd* write_end) {
  std::array<int, 2> fds;
  if (pipe2(fds.data(), O_CLOEXEC) != 0) return absl::InternalError(strerror(errno));
  read_end->Reset(fds[0]);
  write_end->Reset(fds[1]);
  return absl::OkStatus();
}

// Reads what is there; false at the end of the file.
bool ReadSome(int fd, std::string* out) {
  char piece[4096];
  const ssize_t n = read(fd, piece, sizeof(piece));
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  out->append(piece, static_cast<size_t>(n));
  return n > 0;
}

std::vector<std::string> MergedEnvironment(
    const std::vector<std::pair<std::string, std::string>>& env) {
  std::map<std::string, std::string> merged;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    merged[std::string(text.substr(0, equals))] = std::string(text.substr(equals + 1));
  }
  for (const auto& [name, value] : env) merged[name] = value;
  std::vector<std::string> out;
  for (const auto& [name, value] : merged) out.push_back(absl::StrCat(name, "=", value));
  return out;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

absl::StatusOr<pid_t> Spawn(std::vector<std::string> argv, std::vector<std::string> env, int out_fd,
                            int err_fd) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err_fd, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  sigdelset(&all, SIGKILL);
  sigdelset(&all, SIGSTOP);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  // A process group of its own, so that all of it can be ended.
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv.front().c_str(), &actions, &attributes,
                                 Pointers(argv).data(), Pointers(env).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) return absl::NotFoundError(strerror(error));
  if (error != 0) return absl::FailedPreconditionError(strerror(error));
  return pid;
}

int PollTimeout(absl::Time deadline) {
  const int64_t ms =
      absl::ToInt64Milliseconds(absl::Ceil(deadline - absl::Now(), absl::Milliseconds(1)));
  return static_cast<int>(std::clamp<int64_t>(ms, 0, 1'000'000));
}

// Reads both pipes until the program has ended.
absl::Status Collect(pid_t pid, int out_fd, int err_fd, absl::Time deadline,
                     ProcessResult* result) {
  const Fd ended(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  std::array<pollfd, 3> fds = {pollfd{out_fd, POLLIN, 0}, pollfd{err_fd, POLLIN, 0},
                               pollfd{ended.get(), POLLIN, 0}};
  for (;;) {
    const int n = poll(fds.data(), fds.size(), PollTimeout(deadline));
    if (n < 0 && errno != EINTR) return absl::InternalError(strerror(errno));
    if (n <= 0 && absl::Now() >= deadline) return absl::DeadlineExceededError("not done in time");
    if (n <= 0) continue;
    if (fds[0].revents != 0 && !ReadSome(out_fd, &result->out)) fds[0].fd = -1;
    if (fds[1].revents != 0 && !ReadSome(err_fd, &result->err)) fds[1].fd = -1;
    if (result->out.size() > kMaxOut) {
      return absl::ResourceExhaustedError(absl::StrCat("more than ", kMaxOut, " bytes of output"));
    }
    if (result->err.size() > kMaxErr) result->err.erase(0, result->err.size() - kMaxErr);
    const bool drained = fds[0].revents == 0 || fds[0].fd < 0;
    if (fds[2].revents != 0 && drained) return absl::OkStatus();
    if (ended.get() < 0 && fds[0].fd < 0) return absl::OkStatus();  // a kernel without pidfds
  }
}

}  // namespace

absl::StatusOr<ProcessResult> RunProcess(
    const std::vector<std::string>& argv,
    const std::vector<std::pair<std::string, std::string>>& env, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  Fd out_read, out_write, err_read, err_write;
  RETURN_IF_ERROR(MakePipe(&out_read, &out_write));
  RETURN_IF_ERROR(MakePipe(&err_read, &err_write));
  ASSIGN_OR_RETURN(const pid_t pid,
                   Spawn(argv, MergedEnvironment(env), out_write.get(), err_write.get()));
  out_write.Reset(-1);
  err_write.Reset(-1);
  ProcessResult result;
  const absl::Status collected = Collect(pid, out_read.get(), err_read.get(), deadline, &result);
  if (!collected.ok()) kill(-pid, SIGKILL);  // before waitpid: the number is still ours
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  RETURN_IF_ERROR(collected);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace kube
