#include "operator/cli/volumes.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/ascii.h"
#include "base/json_read.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "operator/cli/expand.h"
#include "operator/cli/projected_files.h"

namespace tfjob {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::string> MakeFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return absl::InvalidArgumentError(
        base::StrCat("cannot make the folder ", folder.string(), ": ", error.message()));
  }
  return folder.string();
}

absl::StatusOr<std::string> HostPath(const Json& host_path) {
  const fs::path path = base::StringAt(host_path, "path");
  const std::string type = base::StringAt(host_path, "type");
  std::error_code error;
  if (type == "DirectoryOrCreate") return MakeFolder(path);
  if (type == "FileOrCreate" && !fs::exists(path, error)) std::ofstream(path).flush();
  if (!fs::exists(path, error)) {
    return absl::InvalidArgumentError(
        base::StrCat("hostPath ", path.string(),
                     " does not exist on this machine: make it, or map the volume "
                     "with --volume NAME=FOLDER"));
  }
  return path.string();
}

absl::StatusOr<std::string> WriteFiles(const ProjectedFiles& files, const fs::path& folder) {
  RETURN_IF_ERROR(MakeFolder(folder).status());
  for (const auto& [name, file] : files) {
    const fs::path path = folder / name;
    RETURN_IF_ERROR(MakeFolder(path.parent_path()).status());
    std::error_code error;
    fs::remove(path, error);  // a read-only one of the run before
    {
      std::ofstream out(path, std::ios::binary);
      fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write, error);
      out << file.content;
    }
    fs::permissions(path, static_cast<fs::perms>(file.mode), error);
    if (error || fs::file_size(path, error) != file.content.size()) {
      return absl::InvalidArgumentError(base::StrCat("cannot write ", path.string()));
    }
  }
  return folder.string();
}

// The folder or file below `source` that subPath asks for; a missing one is made as a folder.
absl::StatusOr<std::string> SubPath(const std::string& source, const std::string& sub_path) {
  if (sub_path.empty()) return source;
  const fs::path relative = fs::path(sub_path).lexically_normal();
  if (relative.is_absolute() || relative.begin()->string() == "..") {
    return absl::InvalidArgumentError(
        base::StrCat("subPath \"", sub_path, "\" must stay inside the volume"));
  }
  const fs::path path = fs::path(source) / relative;
  std::error_code error;
  if (fs::exists(path, error)) return path.string();
  return MakeFolder(path);
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> ParseVolumeFlags(
    const std::vector<std::string>& flags) {
  std::map<std::string, std::string> volumes;
  for (const std::string& flag : flags) {
    const size_t equals = flag.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == flag.size()) {
      return absl::InvalidArgumentError(base::StrCat("--volume ", flag, ": expected NAME=FOLDER"));
    }
    const std::string name = flag.substr(0, equals);
    std::error_code error;
    const fs::path folder = fs::canonical(flag.substr(equals + 1), error);
    if (error)
      return absl::InvalidArgumentError(base::StrCat("--volume ", flag, ": ", error.message()));
    if (!volumes.emplace(name, folder.string()).second) {
      return absl::InvalidArgumentError(
          base::StrCat("--volume ", flag, ": ", name, " is given twice"));
    }
  }
  return volumes;
}

Volumes::Volumes(std::string work_dir, std::map<std::string, std::string> mapped)
    : work_dir_(std::move(work_dir)), mapped_(std::move(mapped)) {}

absl::StatusOr<std::string> Volumes::SharedFolder(const std::string& name) {
  if (const auto known = shared_.find(name); known != shared_.end()) return known->second.folder;
  const auto mapped = mapped_.find(name);
  std::string folder;
  if (mapped != mapped_.end()) {
    folder = mapped->second;
  } else {
    ASSIGN_OR_RETURN(folder, MakeFolder(fs::path(work_dir_) / "volumes" / name));
  }
  std::error_code error;
  shared_[name] = {folder, fs::is_directory(folder, error) && fs::is_empty(folder, error)};
  return folder;
}

absl::StatusOr<std::string> Volumes::SourceOf(const Json& volume, const PodContext& context) {
  const std::string name = base::StringAt(volume, "name");
  const std::string claim = base::StringAt(base::At(volume, "persistentVolumeClaim"), "claimName");
  // They become folders: nothing but a plain name may get through.
  for (const std::string& part : {name, claim}) {
    if (part.find('/') != std::string::npos || part == "." || part == "..") {
      return absl::InvalidArgumentError(base::StrCat("\"", part, "\" is not a valid name"));
    }
  }
  if (!claim.empty() && mapped_.contains(claim)) return SharedFolder(claim);
  if (mapped_.contains(name)) return SharedFolder(name);
  const fs::path own = fs::path(work_dir_) / "pods" /
                       base::StringAt(base::At(*context.pod, "metadata"), "name") / name;
  // A volume without a source is an emptyDir.
  if (volume.contains("emptyDir") || volume.size() <= 1) return MakeFolder(own);
  if (const Json& host_path = base::At(volume, "hostPath"); host_path.is_object())
    return HostPath(host_path);
  ASSIGN_OR_RETURN(const std::optional<ProjectedFiles> files, FilesOfVolume(volume, context));
  if (files) return WriteFiles(*files, own);
  return SharedFolder(claim.empty() ? name : claim);
}

absl::StatusOr<Mount> Volumes::MountOf(const Json& mount, const PodContext& context,
                                       const Environment& environment) {
  const std::string name = base::StringAt(mount, "name");
  const Json* volume = nullptr;
  for (const Json& candidate : base::ArrayAt(base::At(*context.pod, "spec"), "volumes")) {
    if (base::StringAt(candidate, "name") == name) volume = &candidate;
  }
  if (volume == nullptr)
    return absl::InvalidArgumentError("spec.volumes has no volume of that name");
  ASSIGN_OR_RETURN(const std::string source, SourceOf(*volume, context));
  const std::string expression =
      Expand(base::StringAt(mount, "subPathExpr"), [&](std::string_view variable) {
        const auto found = environment.find(std::string(variable));
        return found == environment.end() ? std::nullopt : std::optional(found->second);
      });
  ASSIGN_OR_RETURN(
      const std::string shown,
      SubPath(source, expression.empty() ? base::StringAt(mount, "subPath") : expression));
  const bool read_only = base::BoolAt(mount, "readOnly") ||
                         base::BoolAt(base::At(*volume, "persistentVolumeClaim"), "readOnly");
  const fs::path path = fs::path(base::StringAt(mount, "mountPath")).lexically_normal();
  // Kubernetes takes a relative mountPath as one below the root.
  return Mount{shown, (fs::path("/") / path).string(), read_only};
}

absl::StatusOr<std::vector<Mount>> Volumes::MountsOf(const Json& container,
                                                     const PodContext& context,
                                                     const Environment& environment) {
  std::vector<Mount> mounts;
  for (const Json& entry : base::ArrayAt(container, "volumeMounts")) {
    absl::StatusOr<Mount> mount = MountOf(entry, context, environment);
    if (!mount.ok()) {
      return absl::InvalidArgumentError(
          base::StrCat("container \"", base::StringAt(container, "name"), "\": volume \"",
                       base::StringAt(entry, "name"), "\": ", mount.status().message()));
    }
    if (mount->path.size() > 1 && mount->path.ends_with('/')) mount->path.pop_back();
    mounts.push_back(*std::move(mount));
  }
  return mounts;
}

std::vector<std::string> Volumes::UnusedFlags() const {
  std::vector<std::string> unused;
  for (const auto& [name, folder] : mapped_) {
    if (!shared_.contains(name)) unused.push_back(name);
  }
  return unused;
}

std::string RewritePaths(std::string_view text, const std::vector<Mount>& mounts) {
  const auto in_name = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  };
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Mount* longest = nullptr;
    // A path begins where no other path or name goes on.
    const bool begins =
        text[at] == '/' && (at == 0 || (!in_name(text[at - 1]) && text[at - 1] != '/'));
    for (const Mount& mount : mounts) {
      if (!begins || text.substr(at, mount.path.size()) != mount.path) continue;
      const size_t end = at + mount.path.size();
      if (end < text.size() && in_name(text[end])) continue;
      if (longest == nullptr || mount.path.size() > longest->path.size()) longest = &mount;
    }
    if (longest == nullptr) {
      out.push_back(text[at++]);
    } else {
      out.append(longest->source);
      at += longest->path.size();
    }
  }
  return out;
}

bool AlreadyInPlace(const std::vector<Mount>& mounts) {
  return std::all_of(mounts.begin(), mounts.end(), [](const Mount& mount) {
    std::error_code error;
    return fs::equivalent(mount.source, mount.path, error) && !error;
  });
}

}  // namespace tfjob
