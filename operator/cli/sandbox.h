// A container's view of the file system: the host's files with volumes at their mount paths, in a
// mount namespace of its own. Planned before the fork, where memory may be allocated; entered in
// the child with system calls only. Mount points that the host lacks are never made on the host.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tfjob {

// What the kernel lets us do.
enum class Isolation {
  kNone,  // no namespaces
  kRoot,  // namespaces as root
  kUser,  // inside a user namespace of our own
};
struct SandboxSupport {
  Isolation isolation = Isolation::kNone;
  std::string why_not;  // for kNone: the system call that failed and why
};
// Tries it out in a short-lived child.
SandboxSupport ProbeSandbox();

// A folder or file of the host that a container sees at `path`.
struct Mount {
  std::string source;  // absolute, exists
  std::string path;    // absolute
  bool read_only = false;
  bool operator==(const Mount&) const = default;
};

// One system call (or two) of building a root.
struct MountStep {
  enum class Kind { kFolder, kFile, kSymlink, kBind, kReadOnly, kProc };
  Kind kind;
  std::string source;  // of a bind; the target text of a symlink
  std::string target;
  bool required = true;  // false: the host's own entries, which may vanish or be denied
  bool operator==(const MountStep&) const = default;
};

// The steps that build a root at `new_root` (an empty folder of the host, covered by a tmpfs) out
// of the host's file system plus `mounts`. Reads the host's folders, and makes missing mount points
// of nested mounts inside the outer volume. kInvalidArgument: a path that is not absolute, two
// mounts at one path, a missing source.
absl::StatusOr<std::vector<MountStep>> PlanRoot(const std::vector<Mount>& mounts,
                                                const std::string& new_root);

// Where a step of the child failed.
struct SandboxFailure {
  int error = 0;  // errno, 0 for success
  int step = -1;  // index into the steps, or -1 for the steps around them
};
// Builds and enters the root; with no steps only mounts a /proc of the child's PID namespace. Only
// system calls. REQUIRES: the caller is in mount and PID namespaces of its own, single-threaded.
SandboxFailure EnterRoot(const std::vector<MountStep>& steps, const char* new_root);

}  // namespace tfjob
