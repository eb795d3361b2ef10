// For tests of `trainyard run` with real processes: writes manifests, starts the program, reads its
// output, and finds every process that a run leaves behind. All waits have deadlines.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "operator/cli/process.h"

namespace tfjob {

inline constexpr absl::Duration kTestDeadline = absl::Seconds(20);

// Builds a TFJob manifest whose containers run shell scripts.
class TestJob {
 public:
  explicit TestJob(std::string name) : name_(std::move(name)) {}
  struct Options {
    int replicas = 1;
    std::string restart = "Never";
    std::string
        container;    // more fields of the container, in YAML flow style: "env: [...], args: [...]"
    std::string pod;  // more fields of the pod's spec, in the same style
    std::string type;  // a line of the replica's spec
  };
  TestJob& Replica(const std::string& type, const std::string& script, Options options);
  TestJob& Replica(const std::string& type, const std::string& script) {
    return Replica(type, script, {});
  }
  // A line of spec ("successPolicy: AllWorkers") or of runPolicy ("backoffLimit: 2").
  TestJob& Spec(const std::string& line);
  TestJob& Policy(const std::string& line);
  std::string Yaml() const;

 private:
  std::string name_;
  std::string spec_;
  std::string policy_;
  std::string replicas_;
};

struct RunOutcome {
  int code = -1;  // 128+n when the program itself died of signal n
  std::string output;
  absl::Duration duration;
  bool Says(std::string_view text) const { return output.find(text) != std::string::npos; }
};

// One run of the program in a folder of its own, which goes with it.
class TestRun {
 public:
  TestRun();
  ~TestRun();
  const std::string& folder() const { return folder_; }
  std::string WriteFile(const std::string& name, const std::string& content) const;
  // The content of a file of the folder; "" if there is none.
  std::string ReadFile(const std::string& name) const;

  // Starts `trainyard run` on the manifest, with the work folder "work" in the folder.
  void Start(const std::string& yaml, const std::vector<std::string>& flags = {});
  // True once the output holds `text`; false at the deadline or the end of the output.
  bool WaitFor(const std::string& text, absl::Duration deadline = kTestDeadline);
  void Signal(int number) const;
  // Waits for the end; the process is killed at the deadline, which gives code -1.
  RunOutcome Wait(absl::Duration deadline = kTestDeadline);
  RunOutcome Run(const std::string& yaml, const std::vector<std::string>& flags = {});

  // Command lines of processes that this run has started and that are still there at the deadline.
  std::vector<std::string> Survivors(absl::Duration deadline) const;
  int CountProcesses() const;
  // Variables that the program is started with, beside our own.
  void SetEnv(const std::string& name, const std::string& value) { environment_[name] = value; }
  // The user and group that the program runs as. REQUIRES: we are root.
  void SetUser(unsigned id) { user_ = id; }

 private:
  bool ReadSome(absl::Time deadline);
  std::vector<pid_t> Processes() const;

  std::string folder_;
  std::string mark_;  // in the environment of everything that the run starts
  std::map<std::string, std::string> environment_;
  std::optional<unsigned> user_;
  pid_t pid_ = -1;
  Fd stdout_;
  std::string output_;
  absl::Time started_;
};

}  // namespace tfjob
