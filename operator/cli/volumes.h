// Volumes of pods as folders of this machine: claims and other named volumes in a folder that all
// pods share, emptyDir in one per pod, hostPath as it is, configMap, secret and downwardAPI written
// out.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/cli/container_env.h"
#include "operator/cli/sandbox.h"

namespace tfjob {

// Folders by volume or claim name, from NAME=FOLDER flags; each is made absolute. kInvalidArgument:
// no "=", a name given twice, a folder that does not exist.
absl::StatusOr<std::map<std::string, std::string>> ParseVolumeFlags(
    const std::vector<std::string>& flags);

// What a shared volume is on this machine, for messages.
struct SharedVolume {
  std::string folder;
  bool empty = false;  // it was empty when the job began
};

// Not thread-safe.
class Volumes {
 public:
  // REQUIRES: work_dir is absolute. `mapped` as from ParseVolumeFlags.
  Volumes(std::string work_dir, std::map<std::string, std::string> mapped);

  // The mounts of one container; makes what they need on disk. kInvalidArgument names the
  // container, the volume and what is wrong with it.
  absl::StatusOr<std::vector<Mount>> MountsOf(const Json& container, const PodContext& context,
                                              const Environment& environment);

  // Volumes shared between pods that were met so far, by claim or volume name.
  const std::map<std::string, SharedVolume>& shared() const { return shared_; }
  // Names of --volume flags that no volume of the manifest used.
  std::vector<std::string> UnusedFlags() const;

 private:
  absl::StatusOr<std::string> SourceOf(const Json& volume, const PodContext& context);
  absl::StatusOr<std::string> SharedFolder(const std::string& name);
  absl::StatusOr<Mount> MountOf(const Json& mount, const PodContext& context,
                                const Environment& environment);

  const std::string work_dir_;
  const std::map<std::string, std::string> mapped_;
  std::map<std::string, SharedVolume> shared_;
};

// For a run without namespaces: every mount path in `text` that stands at a path boundary becomes
// the mount's folder. The longest path wins: with /data and /data/raw mounted, /data/raw/x is in
// the latter.
std::string RewritePaths(std::string_view text, const std::vector<Mount>& mounts);

// Whether every mount path already is the folder that it should show, so that no namespace is
// needed.
bool AlreadyInPlace(const std::vector<Mount>& mounts);

}  // namespace tfjob
