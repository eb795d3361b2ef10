#include "operator/cli/sandbox.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "base/status_macros.h"
#include "base/str_cat.h"

namespace tfjob {
namespace {

namespace fs = std::filesystem;

// Mount paths as a tree: a node is a folder on the way to mounts, or a mount (or both, when
// nested).
struct Node {
  std::map<std::string, std::unique_ptr<Node>> children;
  const Mount* mount = nullptr;
};

// The path with symbolic links of its existing part resolved: /var/run/x is /run/x on most hosts.
fs::path Resolve(const fs::path& path) {
  std::error_code error;
  fs::path resolved = fs::weakly_canonical(path, error);
  return error ? path.lexically_normal() : resolved;
}

bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool SameKind(const fs::path& path, const Mount& mount) {
  std::error_code error;
  return fs::exists(path, error) && IsFolder(path) == IsFolder(mount.source);
}

class RootPlanner {
 public:
  std::vector<MountStep> Plan(const Node& root, const std::string& new_root) {
    OpenFolder(root, "/", new_root);
    return std::move(steps_);
  }

 private:
  using Kind = MountStep::Kind;

  void Add(Kind kind, std::string source, std::string target, bool required) {
    steps_.push_back({kind, std::move(source), std::move(target), required});
  }

  // Makes an empty file or folder at `target` and binds the host's `source` there.
  void Show(const fs::path& source, const std::string& target, bool required) {
    Add(IsFolder(source) ? Kind::kFolder : Kind::kFile, "", target, required);
    Add(Kind::kBind, source, target, required);
  }

  // Whether every mount below has its mount point on the host, so that nothing has to be made.
  bool HostHasAll(const Node& node, const fs::path& host) {
    for (const auto& [name, child] : node.children) {
      const fs::path path = host / name;
      if (child->mount != nullptr ? !SameKind(path, *child->mount) : !HostHasAll(*child, path))
        return false;
    }
    return true;
  }

  void MountAt(const Node& node, const std::string& target) {
    Add(Kind::kBind, node.mount->source, target, true);
    MountNested(node, node.mount->source, target);
    if (node.mount->read_only) Add(Kind::kReadOnly, "", target, true);
  }

  // Mounts inside something that is bound as a whole. Their mount points exist on the host or,
  // inside a volume, are made in the volume's folder, as container runtimes do.
  void MountNested(const Node& node, const fs::path& source, const std::string& target) {
    for (const auto& [name, child] : node.children) {
      const fs::path path = source / name;
      const std::string at = base::StrCat(target, "/", name);
      std::error_code ignored;  // the bind itself reports what is still missing
      if (!fs::exists(path, ignored)) {
        const bool file = child->mount != nullptr && !IsFolder(child->mount->source);
        Add(file ? Kind::kFile : Kind::kFolder, "", at, true);
      }
      if (child->mount != nullptr) {
        MountAt(*child, at);
      } else {
        MountNested(*child, path, at);
      }
    }
  }

  // A folder of the host in which something is to be made: an own folder, with the host's entries
  // bound one by one.
  void OpenFolder(const Node& node, const fs::path& host, const std::string& target) {
    std::error_code error;
    std::set<fs::path> entries;  // sorted: the plan is deterministic
    fs::directory_iterator at(host, error);
    for (; !error && at != fs::directory_iterator(); at.increment(error)) {
      entries.insert(at->path());
    }
    for (const fs::path& entry : entries) {
      const std::string name = entry.filename();
      if (!node.children.contains(name)) ShowEntry(entry, base::StrCat(target, "/", name));
    }
    for (const auto& [name, child] : node.children) {
      ShowChild(*child, host / name, base::StrCat(target, "/", name));
    }
  }

  void ShowEntry(const fs::path& entry, const std::string& target) {
    std::error_code error;
    if (fs::is_symlink(entry, error)) {
      const fs::path text = fs::read_symlink(entry, error);
      if (!error) Add(Kind::kSymlink, text, target, false);
    } else if (entry == "/proc") {
      Add(Kind::kFolder, "", target, true);
      Add(Kind::kProc, entry, target, true);
    } else {
      Show(entry, target, false);
    }
  }

  void ShowChild(const Node& child, const fs::path& host, const std::string& target) {
    if (child.mount != nullptr) {
      Add(IsFolder(child.mount->source) ? Kind::kFolder : Kind::kFile, "", target, true);
      MountAt(child, target);
    } else if (IsFolder(host) && HostHasAll(child, host)) {
      Show(host, target, true);
      MountNested(child, host, target);
    } else {
      Add(Kind::kFolder, "", target, true);
      OpenFolder(child, host, target);
    }
  }

  std::vector<MountStep> steps_;
};

absl::Status Insert(Node& root, const Mount& mount) {
  const fs::path path(mount.path);
  if (!path.is_absolute()) {
    return absl::InvalidArgumentError(
        base::StrCat("mountPath \"", mount.path, "\" must be absolute: start it with /"));
  }
  std::error_code error;
  if (!fs::exists(mount.source, error)) {
    return absl::InvalidArgumentError(
        base::StrCat("nothing to mount at ", mount.path, ": ", mount.source, " does not exist"));
  }
  Node* node = &root;
  for (const fs::path& part : Resolve(path).relative_path()) {
    if (part.empty()) continue;  // of a trailing slash
    std::unique_ptr<Node>& child = node->children[part];
    if (child == nullptr) child = std::make_unique<Node>();
    node = child.get();
  }
  if (node == &root) return absl::InvalidArgumentError("mountPath / would hide everything");
  if (node->mount != nullptr) {
    return absl::InvalidArgumentError(base::StrCat("two volumes have the mountPath ", mount.path));
  }
  node->mount = &mount;
  return absl::OkStatus();
}

// A remount must keep the flags that a user namespace may not clear.
unsigned long KeptFlags(const char* path) {
  struct statvfs info;
  if (statvfs(path, &info) != 0) return 0;
  unsigned long flags = 0;
  if (info.f_flag & ST_NOSUID) flags |= MS_NOSUID;
  if (info.f_flag & ST_NODEV) flags |= MS_NODEV;
  if (info.f_flag & ST_NOEXEC) flags |= MS_NOEXEC;
  if (info.f_flag & ST_NOATIME) flags |= MS_NOATIME;
  if (info.f_flag & ST_NODIRATIME) flags |= MS_NODIRATIME;
  if (info.f_flag & ST_RELATIME) flags |= MS_RELATIME;
  return flags;
}

int MakeFile(const char* path) {
  const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) return -1;
  return close(fd);
}

// A /proc of the new PID namespace; where that is not allowed (nested containers), the host's still
// resolves /proc/self.
int MountProc(const char* source, const char* target) {
  if (mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0) return 0;
  return mount(source, target, nullptr, MS_BIND | MS_REC, nullptr);
}

int Do(const MountStep& step) {
  const char* const target = step.target.c_str();
  switch (step.kind) {
    case MountStep::Kind::kFolder:
      return mkdir(target, 0755) == 0 || errno == EEXIST ? 0 : -1;
    case MountStep::Kind::kFile:
      return MakeFile(target);
    case MountStep::Kind::kSymlink:
      return symlink(step.source.c_str(), target);
    case MountStep::Kind::kBind:
      return mount(step.source.c_str(), target, nullptr, MS_BIND | MS_REC, nullptr);
    case MountStep::Kind::kReadOnly:
      return mount(nullptr, target, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY | KeptFlags(target),
                   nullptr);
    case MountStep::Kind::kProc:
      return MountProc(step.source.c_str(), target);
  }
  return -1;
}

// pivot_root fails where the root is an initramfs or a chroot; a chroot is as good for our purpose.
int ChangeRoot(const char* new_root) {
  if (chdir(new_root) != 0) return -1;
  if (syscall(SYS_pivot_root, ".", ".") == 0)
    return umount2(".", MNT_DETACH) == 0 && chdir("/") == 0 ? 0 : -1;
  return chroot(".") == 0 && chdir("/") == 0 ? 0 : -1;
}

// Runs in a child of the probe. Returns the errno of the first call that is denied.
int TryMounts() {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return errno;
  if (mount("tmpfs", "/proc", "tmpfs", 0, "size=1m") != 0) return errno;
  return 0;
}

// The errno of making a child in such namespaces, as containers are made, and of mounting in it.
int ProbeFlags(unsigned long flags) {
  const long pid = syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (pid < 0) return errno;
  if (pid == 0) _exit(TryMounts());
  int status = 0;
  while (waitpid(static_cast<pid_t>(pid), &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
}

}  // namespace

SandboxSupport ProbeSandbox() {
  constexpr unsigned long kFlags = CLONE_NEWNS | CLONE_NEWPID;
  if (geteuid() == 0 && ProbeFlags(kFlags) == 0) return {Isolation::kRoot, ""};
  const int error = ProbeFlags(kFlags | CLONE_NEWUSER);
  if (error == 0) return {Isolation::kUser, ""};
  return {Isolation::kNone, base::StrCat("this machine does not permit mount namespaces (clone: ",
                                         std::strerror(error), ")")};
}

absl::StatusOr<std::vector<MountStep>> PlanRoot(const std::vector<Mount>& mounts,
                                                const std::string& new_root) {
  Node root;
  for (const Mount& mount : mounts) RETURN_IF_ERROR(Insert(root, mount));
  return RootPlanner().Plan(root, new_root);
}

SandboxFailure EnterRoot(const std::vector<MountStep>& steps, const char* new_root) {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return {errno, -1};
  if (steps.empty()) {
    MountProc("/proc", "/proc");  // /proc of the host serves nearly as well
    return {};
  }
  if (mount("tmpfs", new_root, "tmpfs", 0, "mode=0755") != 0) return {errno, -1};
  // Unbindable: a bind of the host's folder that holds new_root must not hold a copy of it.
  if (mount(nullptr, new_root, nullptr, MS_UNBINDABLE, nullptr) != 0) return {errno, -1};
  for (size_t i = 0; i < steps.size(); ++i) {
    if (Do(steps[i]) != 0 && steps[i].required) return {errno, static_cast<int>(i)};
  }
  if (ChangeRoot(new_root) != 0) return {errno, -1};
  return {};
}

}  // namespace tfjob
