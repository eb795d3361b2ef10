// v1alpha1 (2017 to 2018): a list of replicas; only the chief's end counted, all others were
// started anew whatever happened to them.
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/api/object_reader.h"
#include "operator/cli/old_tfjob_parts.h"

namespace tfjob {
namespace {

constexpr char kDefaultTypeName[] = "MASTER";

std::string EntryPath(size_t index) { return absl::StrCat("spec.replicaSpecs[", index, "]"); }

class List {
 public:
  explicit List(Conversion& conversion) : conversion_(conversion) {}

  void Convert() {
    Json& spec = conversion_.job["spec"];
    const Json entries = TakeField(spec, "replicaSpecs");
    if (!entries.is_array()) {
      return Error("spec.replicaSpecs", absl::StrCat("must be a list, not ", TypeName(entries)));
    }
    for (size_t i = 0; i < entries.size(); ++i) Entry(i, entries[i]);
    if (!conversion_.errors.empty()) return;
    ChoosePolicies(entries);
    ReadChief(TakeField(spec, "terminationPolicy"));
    spec["tfReplicaSpecs"] = std::move(specs_);
    MoveSchedulerName(conversion_, /*overwrite=*/true);
    CleanPodPolicy();
    DropTheRest();
  }

 private:
  void Note(std::string path, std::string message) {
    conversion_.notes.push_back({std::move(path), std::move(message)});
  }
  void Error(std::string path, std::string message) {
    conversion_.errors.push_back({std::move(path), std::move(message)});
  }

  // Master, PS or Worker; nullopt: the entry has another type, or one that was there already.
  std::optional<std::string> TypeOf(size_t index, const Json& entry) {
    const Json& given = base::At(entry, "tfReplicaType");
    const std::string name = given.is_null() ? kDefaultTypeName : base::Scalar(given);
    const std::string type = CanonicalReplicaType(name);
    const std::string path = absl::StrCat(EntryPath(index), ".tfReplicaType");
    if (type != kMaster && type != kPs && type != kWorker) {
      Error(path, absl::StrCat("\"", name, "\": must be MASTER, PS or WORKER"));
      return std::nullopt;
    }
    if (specs_.contains(type)) {
      Error(path, absl::StrCat(name, " is there twice; join the two entries"));
      return std::nullopt;
    }
    return type;
  }

  void Entry(size_t index, const Json& entry) {
    const std::string path = EntryPath(index);
    if (!entry.is_object()) {
      return Error(path, absl::StrCat("must be an object, not ", TypeName(entry)));
    }
    const std::optional<std::string> type = TypeOf(index, entry);
    if (!type) return;
    Json replica = entry;
    const bool named = !TakeField(replica, "tfReplicaType").is_null();
    if (!base::At(entry, "template", "spec").is_object()) {
      return Error(absl::StrCat(path, ".template"),
                   "has no spec: the old operator ran a program of its own for such parameter "
                   "servers; give it a template whose program is a server");
    }
    Note(path, absl::StrCat("becomes spec.tfReplicaSpecs.", *type,
                            named ? "" : "; an entry without tfReplicaType was MASTER",
                            *type == kMaster ? "; its TF_CONFIG says master, as then (a program "
                                               "that knows only chief wants the key Chief)"
                                             : ""));
    if (!TakeField(replica, "isDefaultPS").is_null() ||
        !TakeField(replica, "IsDefaultPS").is_null()) {
      Note(absl::StrCat(path, ".isDefaultPS"), "dropped: its template says what it runs");
    }
    SetPort(path, replica);
    specs_[*type] = std::move(replica);
  }

  // tfPort as the container port that v1 knows by its name.
  void SetPort(const std::string& path, Json& replica) {
    const Json given = TakeField(replica, "tfPort");
    if (!given.is_null() && !given.is_number_integer()) {
      return Error(absl::StrCat(path, ".tfPort"),
                   absl::StrCat("must be an integer, not ", TypeName(given)));
    }
    const Json port = given.is_null() ? Json(kDefaultPort) : given;
    const std::optional<size_t> container = TensorflowContainer(replica["template"]);
    if (!container) return;  // for Validate to refuse
    Json& ports = replica["template"]["spec"]["containers"][*container]["ports"];
    if (!ports.is_null() && !ports.is_array()) return;  // the same
    if (ports.is_null()) ports = Json::array();
    bool found = false;
    for (Json& entry : ports) {
      if (base::StringAt(entry, "name") != kPortName && base::At(entry, "containerPort") != port) {
        continue;
      }
      entry["name"] = kPortName;
      entry["containerPort"] = port;
      found = true;
      break;
    }
    if (!found && !given.is_null()) {
      ports.push_back({{"name", kPortName}, {"containerPort", port}});
      found = true;
    }
    if (ports.empty()) replica["template"]["spec"]["containers"][*container].erase("ports");
    if (found) {
      Note(absl::StrCat(path, given.is_null() ? "" : ".tfPort"),
           absl::StrCat("port ", port.dump(), " is the container port named ", kPortName));
    }
  }

  // The type whose end is the job's in v1.
  std::string Decider() const { return specs_.contains(kMaster) ? kMaster : kWorker; }

  // The chief was tried again after passing errors and ended the job otherwise; any other replica
  // came back whatever had happened.
  void ChoosePolicies(const Json& entries) {
    for (size_t i = 0; i < entries.size(); ++i) {
      const Json& given = base::At(entries[i], "tfReplicaType");
      const std::string type =
          CanonicalReplicaType(given.is_null() ? kDefaultTypeName : base::Scalar(given));
      Json& replica = specs_[type];
      const Json old = TakeField(replica["template"]["spec"], "restartPolicy");
      const std::string was = old.is_null() ? kRestartAlways : base::Scalar(old);
      const bool decides = type == Decider();
      const std::string policy = decides                 ? kRestartExitCode
                                 : was == kRestartAlways ? kRestartAlways
                                                         : kRestartOnFailure;
      replica["restartPolicy"] = policy;
      const std::string why = decides
                                  ? "it decides about the job: errors that pass were tried again, "
                                    "others failed the job"
                                  : "it was started anew whatever happened, and could not fail the "
                                    "job";
      Note(
          old.is_null() ? EntryPath(i) : absl::StrCat(EntryPath(i), ".template.spec.restartPolicy"),
          absl::StrCat(was, old.is_null() ? " (pods' default)" : "", " becomes restartPolicy ",
                       policy, " of the replica: ", why, OthersMayFail(type)));
    }
  }

  std::string OthersMayFail(const std::string& type) const {
    const bool several = base::At(specs_[type], "replicas") > 1;
    return type == Decider() && several ? " (now any of them does; then only the chief did)" : "";
  }

  void ReadChief(const Json& termination) {
    const Json& chief = base::At(termination, "chief");
    const std::string path =
        chief.is_null() ? "spec.terminationPolicy" : "spec.terminationPolicy.chief";
    const Json& name = base::At(chief, "replicaName");
    const std::string type =
        CanonicalReplicaType(name.is_null() ? kDefaultTypeName : base::Scalar(name));
    const Json& index = base::At(chief, "replicaIndex");
    if (type == Decider() && (index.is_null() || index == 0)) {
      if (!termination.is_null()) {
        Note(path,
             absl::StrCat("dropped: v1 takes the end of ",
                          type == kMaster ? "the Master" : "worker 0", " for the job's by itself"));
      }
      return;
    }
    const bool can_end = specs_.contains(Decider());
    Note(termination.is_null() ? "spec" : path,
         absl::StrCat(termination.is_null() ? "without terminationPolicy the Master ended the job, "
                                              "and there is none: "
                                            : "cannot be kept: ",
                      !can_end ? "in v1 only a Chief, a Master or worker 0 ends a job; add one"
                      : Decider() == kMaster
                          ? "in v1 the Master ends the job where there is one; let it end last, or "
                            "leave it out"
                          : "in v1 worker 0 ends the job; let it end last"));
  }

  void CleanPodPolicy() {
    Json& spec = conversion_.job["spec"];
    Json policy = TakeField(spec, "cleanupPodPolicy");
    if (policy.is_null() || policy == "") return WriteOutCleanPodPolicy(conversion_, kCleanAll);
    Note("spec.cleanupPodPolicy", "moved to spec.runPolicy.cleanPodPolicy");
    ObjectIn(spec, "runPolicy")["cleanPodPolicy"] = std::move(policy);
  }

  void DropTheRest() {
    Json& spec = conversion_.job["spec"];
    for (const char* key : {"RuntimeId", "runtimeId", "runtimeID"}) {
      if (TakeField(spec, key).is_null()) continue;
      Note(absl::StrCat("spec.", key), "dropped: names are <job>-<type>-<index>, without it");
    }
    if (!TakeField(spec, "tfImage").is_null()) {
      Note("spec.tfImage", "dropped: each template names its image");
    }
    const Json board = TakeField(spec, "tensorboard");
    if (board.is_null()) return;
    const std::string folder = base::StringAt(board, "logDir");
    Note("spec.tensorboard",
         absl::StrCat("cannot be kept: run `tensorboard --logdir ",
                      folder.empty() ? "FOLDER" : folder,
                      "` beside the job, or use the chart's value tensorBoards"));
  }

  Conversion& conversion_;
  Json specs_ = Json::object();
};

}  // namespace

void ConvertV1alpha1(Conversion& conversion) { List(conversion).Convert(); }

}  // namespace tfjob
