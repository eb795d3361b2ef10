// What the scheduler's words mean: "0/3 nodes are available: 1 node(s) had untolerated taint
// {dedicated: infra}, 2 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: …".
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json_read.h"
#include "operator/cli/cluster/findings.h"

namespace tfjob {
namespace {

// What each clause tells of the nodes that it counts.
std::optional<Cause> CauseOfClause(const std::string& clause) {
  if (Says(clause, "Insufficient")) {
    return Says(clause, "gpu") ? Cause::kGpuShortage : Cause::kResourceShortage;
  }
  if (Says(clause, "Too many pods")) return Cause::kResourceShortage;
  if (Says(clause, "persistentvolumeclaim") || Says(clause, "PersistentVolumes to bind") ||
      Says(clause, "volume node affinity conflict") || Says(clause, "persistentvolume \"")) {
    return Cause::kVolumeClaim;
  }
  if (Says(clause, "node affinity") || Says(clause, "node selector") ||
      Says(clause, "nodeSelector")) {
    return Cause::kNodeSelector;
  }
  if (Says(clause, "taint")) {
    // Nodes of the control plane, and nodes that are not ready, are never meant.
    const bool ordinary = Says(clause, "node-role.kubernetes.io/control-plane") ||
                          Says(clause, "node-role.kubernetes.io/master");
    if (ordinary) return std::nullopt;
    return Cause::kTaint;
  }
  if (Says(clause, "unschedulable")) return Cause::kNodesCordoned;
  if (Says(clause, "gang") || Says(clause, "pod group") || Says(clause, "podgroup") ||
      Says(clause, "Coscheduling")) {
    return Cause::kGangNotAdmitted;
  }
  return std::nullopt;
}

// A node is counted where the scheduler's first filter refused it, so one that lacks resources has
// passed selector and taints: it is the nearest to take the pod.
int Rank(Cause cause) {
  switch (cause) {
    case Cause::kGangNotAdmitted:
      return 0;
    case Cause::kVolumeClaim:
      return 1;
    case Cause::kGpuShortage:
      return 2;
    case Cause::kResourceShortage:
      return 3;
    case Cause::kNodeSelector:
      return 4;
    case Cause::kTaint:
      return 5;
    default:
      return 6;
  }
}

// The events about a claim say why it is not bound.
std::string WordsOfClaims(const Json& pod, const JobPicture& picture) {
  std::string out;
  for (const Json& volume : base::ArrayAt(base::At(pod, "spec"), "volumes")) {
    const std::string name = base::StringAt(base::At(volume, "persistentVolumeClaim"), "claimName");
    if (name.empty()) continue;
    bool bound = false;
    bool there = false;
    for (const Json& claim : picture.claims) {
      if (ObjectName(claim) != name) continue;
      there = true;
      bound = base::StringAt(base::At(claim, "status"), "phase") == "Bound";
    }
    if (bound || !picture.claims_known) continue;
    const Json& event = NewestEvent(picture, "PersistentVolumeClaim", name, {});
    absl::StrAppend(&out, out.empty() ? "" : "; ", "claim ", name,
                    there ? " is not bound" : " does not exist");
    if (!event.is_null()) absl::StrAppend(&out, ": ", base::StringAt(event, "message"));
  }
  return out;
}

}  // namespace

Finding FindingOfScheduling(const Json& pod, const std::string& message,
                            const JobPicture& picture) {
  std::string words = message.substr(0, message.find(" preemption:"));
  // Clauses are joined by commas; a taint in braces has none of its own.
  Cause cause = Cause::kNotPlaced;
  for (const auto& piece : absl::StrSplit(words, absl::ByAnyChar(",:"), absl::SkipEmpty())) {
    const std::optional<Cause> found = CauseOfClause(std::string(piece));
    if (found && (cause == Cause::kNotPlaced || Rank(*found) < Rank(cause))) cause = *found;
  }
  // A taint is written {key: value}: the split above has cut it.
  if (cause == Cause::kNotPlaced && Says(words, "taint")) cause = Cause::kTaint;
  // The scheduler looks at taints first and does not say whether the node would fit else.
  const bool of_the_pod = cause == Cause::kGpuShortage || cause == Cause::kResourceShortage ||
                          cause == Cause::kNodeSelector;
  const std::string taints = Says(words, "taint") ? TaintsThatKeepItOff(pod, picture.nodes) : "";
  if (of_the_pod && !taints.empty()) cause = Cause::kTaint;
  if (cause == Cause::kTaint && !taints.empty()) absl::StrAppend(&words, " (", taints, ")");
  Finding out = MakeFinding(cause, absl::StrCat("pod ", ObjectName(pod)), words);
  if (cause != Cause::kVolumeClaim) return out;
  const std::string claims = WordsOfClaims(pod, picture);
  if (!claims.empty()) out.says += " (" + claims + ")";
  return out;
}

}  // namespace tfjob
