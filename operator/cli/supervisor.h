// The supervisor's side of a container: what runs between the fork and the exec, and the loop that
// watches over the command. Only system calls: the program may have threads, so no allocation and
// no locks.
#pragma once

#include <sys/types.h>

#include "operator/cli/process.h"

namespace tfjob {

// Everything that the child needs, made before the fork.
struct SupervisorPlan {
  const ProcessSpec* spec;
  char* const* argv;
  char* const* environment;
  const char* uid_map;  // "1000 1000 1\n"
  const char* gid_map;
  int output;  // becomes the command's standard output and error
  int start;   // where a StartReport goes if the command cannot start; closed by a successful exec
  int life;    // readable once the program is gone; -1: unknown
};

// Why a command did not start. Written whole, being shorter than PIPE_BUF.
struct StartReport {
  enum class Stage { kNamespace, kMount, kFork, kWorkingDir, kExec };
  Stage stage;
  int error;  // errno
  int step;   // of kMount
};

// Asks the supervisor to end everything at once.
int KillSignal();

// Never returns: exits with the command's code. REQUIRES: all signals are blocked.
[[noreturn]] void Supervise(const SupervisorPlan& plan);

// Kills the children of this process, and those they leave behind, until there are none. Only
// system calls.
void KillChildren();

}  // namespace tfjob
