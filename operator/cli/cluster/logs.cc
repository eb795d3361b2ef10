#include "operator/cli/cluster/logs.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <list>
#include <map>
#include <set>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "base/exit_codes.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/cli/cluster/container_log.h"
#include "operator/cli/cluster/findings.h"
#include "operator/cli/cluster/job_row.h"
#include "operator/cli/log_mux.h"

namespace tfjob {
namespace {

constexpr size_t kMaxStreams = 200;  // at once: each is a connection and a thread

std::string Label(const Json& pod, const std::string& label) {
  return base::StringAt(base::At(pod, "metadata", "labels"), label);
}

// "worker-0".
std::string ShortName(const Json& pod) {
  return absl::StrCat(Label(pod, kLabelReplicaType), "-", Label(pod, kLabelReplicaIndex));
}

bool IsWanted(const Json& pod, const LogsFlags& flags) {
  if (!flags.pod.empty() && flags.pod != ObjectName(pod) && flags.pod != ShortName(pod)) {
    return false;
  }
  if (!flags.type.empty() && LowerReplicaType(flags.type) != Label(pod, kLabelReplicaType)) {
    return false;
  }
  return flags.index < 0 || absl::StrCat(flags.index) == Label(pod, kLabelReplicaIndex);
}

// ps-2 before ps-10 before worker-0.
bool Before(const Json& a, const Json& b) {
  const auto key = [](const Json& pod) {
    int index = 0;
    if (!absl::SimpleAtoi(Label(pod, kLabelReplicaIndex), &index)) index = 0;
    return std::make_tuple(Label(pod, kLabelReplicaType), index, ObjectName(pod));
  };
  return key(a) < key(b);
}

bool HasRun(const Json& status) {
  const Json& state = base::At(status, "state");
  return base::At(state, "running").is_object() || base::At(state, "terminated").is_object();
}

// All streams of one command. Lives in one thread; each stream has a thread of its own, which ends
// at the end of its log or when this is destroyed.
class Streams {
 public:
  Streams(const Cluster& cluster, const LogsFlags& flags, LogMux::Options mux)
      : cluster_(cluster),
        flags_(flags),
        container_(flags.container.empty() ? kContainerName : flags.container),
        mux_(mux) {}

  ~Streams() {
    for (std::jthread& thread : threads_) thread.request_stop();
    while (busy()) Turn(absl::Milliseconds(50));  // who writes is not left waiting
  }

  // Starts what is new about the pods: a run that has not been shown. False: some have to wait.
  bool Look(const std::vector<Json>& pods) {
    bool all = true;
    for (const Json& pod : pods) {
      const Json& status = ContainerStatus(pod, container_);
      const int run = IntAt(status, "restartCount");
      const std::string uid = base::StringAt(base::At(pod, "metadata"), "uid");
      auto [known, is_new] = shown_.emplace(uid, -1);
      // One that ended between two looks is the previous one now.
      const bool missed = run > 0 && known->second < run - 1 && (!is_new || looked_);
      if (missed && Start(pod, /*previous=*/true, !is_new || looked_)) known->second = run - 1;
      if (HasRun(status) && known->second < run) {
        const bool started = Start(pod, /*previous=*/false, looked_);
        if (started) known->second = run;
        all = all && started;
      }
    }
    looked_ = true;
    return all;
  }

  // One after the other, each whole: without --follow.
  void ShowInOrder(const std::vector<Json>& pods) {
    for (const Json& pod : pods) {
      const Json& status = ContainerStatus(pod, container_);
      if (!HasRun(status) && IntAt(status, "restartCount") == 0) {
        mux_.Say(absl::StrCat(
            ShortName(pod), " has no log yet: ", base::StringAt(base::At(pod, "status"), "phase")));
        continue;
      }
      Start(pod, /*previous=*/!HasRun(status), /*late=*/false);
      while (busy()) Turn(absl::Milliseconds(200));
    }
    mux_.FlushAll();
  }

  // Takes what comes for at most so long.
  void Turn(absl::Duration time) {
    std::vector<struct pollfd> entries;
    for (const int fd : mux_.Sources()) entries.push_back({fd, POLLIN, 0});
    if (mux_.pending()) entries.push_back({output_, POLLOUT, 0});
    poll(entries.data(), entries.size(), static_cast<int>(absl::ToInt64Milliseconds(time)));
    for (const struct pollfd& entry : entries) {
      if (entry.fd != output_ && entry.revents != 0) mux_.ReadFrom(entry.fd);
    }
    mux_.Flush();
  }

  bool busy() const { return !mux_.Sources().empty() || mux_.pending(); }
  LogMux& mux() { return mux_; }
  // The first trouble of a stream.
  absl::Status status() const {
    absl::MutexLock lock(&mutex_);
    return status_;
  }
  void set_output(int output) { output_ = output; }

 private:
  // `late`: the run began while we looked on; all of it is new.
  bool Start(const Json& pod, bool previous, bool late) {
    if (mux_.Sources().size() >= kMaxStreams) return false;
    absl::StatusOr<Pipe> pipe = MakePipe();
    if (!pipe.ok()) return false;
    ContainerLogOptions options{.pod = ObjectName(pod),
                                .container = container_,
                                .follow = flags_.follow && !previous,
                                .previous = previous};
    if (flags_.tail >= 0 && !late) options.tail_lines = flags_.tail;
    if (!mux_.Add(std::move(pipe->read_end), ShortName(pod), "/dev/null").ok()) return false;
    threads_.emplace_back(
        [this, options, out = std::move(pipe->write_end)](const std::stop_token& stop) mutable {
          Note(CopyLog(cluster_, options, out, stop));
          out = Fd();  // the reader sees the end
        });
    return true;
  }

  void Note(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    status_.Update(status);
  }

  const Cluster& cluster_;
  const LogsFlags& flags_;
  const std::string container_;
  int output_ = 1;
  LogMux mux_;
  std::map<std::string, int> shown_;  // by the pod's uid: the last run that was started
  bool looked_ = false;
  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::list<std::jthread> threads_;  // last: they use all of the above
};

std::vector<Json> Wanted(const std::vector<Json>& pods, const LogsFlags& flags) {
  std::vector<Json> out;
  for (const Json& pod : pods) {
    if (IsWanted(pod, flags)) out.push_back(pod);
  }
  std::sort(out.begin(), out.end(), Before);
  return out;
}

absl::Status NoSuchPod(const std::string& job, const std::vector<Json>& pods) {
  std::vector<std::string> names;
  for (const Json& pod : pods) names.push_back(ObjectName(pod));
  return absl::NotFoundError(
      names.empty()
          ? absl::StrCat("TFJob ", job, " has no pods; trainyard describe ", job, " says why")
          : absl::StrCat("no such pod of TFJob ", job, "; there are ", absl::StrJoin(names, ", ")));
}

bool SomeRun(const std::vector<Json>& pods, const std::string& container) {
  return std::any_of(pods.begin(), pods.end(), [&](const Json& pod) {
    return base::At(ContainerStatus(pod, container), "state", "running").is_object();
  });
}

// Follows until the job has ended and its containers have.
int Follow(const Cluster& cluster, const std::string& name, const LogsFlags& flags,
           Streams& streams, std::ostream& err) {
  const std::string container = flags.container.empty() ? kContainerName : flags.container;
  absl::Time next = absl::InfinitePast();
  absl::Time answered = absl::Now();
  absl::Time say = absl::Now() + kSay;
  bool over = false;
  std::string outcome;
  for (;;) {
    streams.Turn(absl::Milliseconds(100));
    if (over && !streams.busy()) {
      streams.mux().Say(outcome);
      streams.mux().FlushAll();
      return base::kExitOk;
    }
    if (over || absl::Now() < next) continue;
    next = absl::Now() + kLook;
    const absl::StatusOr<Json> job = GetJob(cluster, name);
    const absl::StatusOr<std::vector<Json>> pods = PodsOfJob(cluster, name);
    if (absl::IsNotFound(job.status())) {
      over = true;
      outcome = absl::StrCat("TFJob ", name, " was deleted");
      continue;
    }
    const absl::Status status = job.ok() ? pods.status() : job.status();
    if (!status.ok()) {
      if (absl::Now() - answered > kPatience) return Fail(cluster, status, err);
      continue;
    }
    answered = absl::Now();
    const std::vector<Json> wanted = Wanted(*pods, flags);
    const bool all = streams.Look(wanted);
    if (all && IsOver(*job) && !SomeRun(wanted, container)) {
      over = true;
      outcome = absl::StrCat("TFJob ", name, ": ", StateOf(*job), ": ", ReasonOf(*job));
    } else if (!streams.busy() && absl::Now() >= say) {
      streams.mux().Say(absl::StrCat("waiting for pods of TFJob ", name, ": ", StateOf(*job), ", ",
                                     ReplicasText(*job)));
      say = absl::Now() + kSay;
    }
  }
}

}  // namespace

int ShowLogs(const Cluster& cluster, const std::string& job, const LogsFlags& flags, int output,
             std::ostream& err) {
  const absl::StatusOr<Json> there = GetJob(cluster, job);
  if (!there.ok()) return Fail(cluster, there.status(), err);
  const absl::StatusOr<std::vector<Json>> pods = PodsOfJob(cluster, job);
  if (!pods.ok()) return Fail(cluster, pods.status(), err);
  const std::vector<Json> wanted = Wanted(*pods, flags);
  const bool may_come = flags.follow && !IsOver(*there) && (flags.pod.empty() || pods->empty());
  if (wanted.empty() && !may_come) return Fail(cluster, NoSuchPod(job, *pods), err);
  size_t width = 0;
  for (const Json& pod : wanted) width = std::max(width, ShortName(pod).size());
  const bool color = flags.color == "always" || (flags.color == "auto" && isatty(output) == 1);
  Streams streams(cluster, flags, {.output = output, .color = color, .label_width = width});
  streams.set_output(output);
  if (flags.follow) return Follow(cluster, job, flags, streams, err);
  streams.ShowInOrder(wanted);
  const absl::Status status = streams.status();
  return status.ok() ? base::kExitOk : Fail(cluster, status, err);
}

}  // namespace tfjob
