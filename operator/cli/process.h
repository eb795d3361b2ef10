// One container as a process of this machine: a small supervisor of its own, and below it the
// command. The supervisor is the init of a PID namespace where that is allowed; it forwards
// SIGTERM, and ends every descendant when the command ends, when it is told to, or when this
// program dies.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operator/cli/sandbox.h"

namespace tfjob {

// A file descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.Release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release();

 private:
  int fd_ = -1;
};

// Both ends of a pipe, closed on exec.
struct Pipe {
  Fd read_end;
  Fd write_end;
};
absl::StatusOr<Pipe> MakePipe();

struct ProcessSpec {
  std::vector<std::string> argv;         // not empty
  std::vector<std::string> executables;  // paths to try for argv[0], in order; not empty
  std::vector<std::string> environment;  // NAME=value
  std::string working_dir;               // as the container sees it; empty: this program's
  std::vector<MountStep> root;           // empty: the host's files as they are
  std::string new_root;                  // the folder that PlanRoot planned for
  Isolation isolation = Isolation::kNone;
  // No PID namespace of its own: needed where processes share GPU memory between pods.
  bool share_pids = false;
};

struct Process {
  pid_t supervisor =
      -1;     // a child of the caller: its exit code is the command's, 128+n after signal n
  Fd output;  // standard output and error of the command
  Fd start;   // read with ReadStart once readable
};

// A descriptor of this very process, readable once it has died. Invalid before Linux 5.3.
Fd OwnLife();

// Starts it. Errors are of this machine (kUnavailable: no more processes or descriptors); what is
// wrong with the command arrives through `start`. `life` is OwnLife's, or -1: then a supervisor
// that has only just begun when this program is killed may be left behind.
absl::StatusOr<Process> StartProcess(const ProcessSpec& spec, int life);

// What became of the start: OK once the command runs; kInvalidArgument with the reason when it
// cannot (not found, not executable, workingDir missing, a mount refused). Its exit code is then
// one of those below.
absl::Status ReadStart(int start_fd, const ProcessSpec& spec);

inline constexpr int kCannotExecute = 126;
inline constexpr int kCommandNotFound = 127;

// Asks the command's process group to end (SIGTERM).
void TerminateProcess(pid_t supervisor);
// Ends the command and all its descendants at once.
void KillProcess(pid_t supervisor);

// Makes orphans of this program's descendants its children, so that KillStrays finds them.
void AdoptOrphans();
// Kills and reaps every child that is left, and theirs. REQUIRES: all children of this process are
// ours.
void KillStrays();

// The files that a command name may mean: itself when it holds a slash, else one in each folder of
// `path`.
std::vector<std::string> Executables(const std::string& command, const std::string& path);

}  // namespace tfjob
