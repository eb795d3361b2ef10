#include "operator/cli/run_harness.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "base/str_cat.h"

extern char** environ;

namespace tfjob {
namespace {

namespace fs = std::filesystem;

std::string Slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int Milliseconds(absl::Time deadline) {
  return static_cast<int>(std::max<int64_t>(0, absl::ToInt64Milliseconds(deadline - absl::Now())));
}

// Whether the process has ended by the deadline.
bool AwaitEnd(pid_t pid, absl::Time deadline) {
  const Fd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!fd.valid()) return true;
  struct pollfd entry{fd.get(), POLLIN, 0};
  return poll(&entry, 1, Milliseconds(deadline)) == 1;
}

}  // namespace

TestJob& TestJob::Replica(const std::string& type, const std::string& script, Options options) {
  const std::string command =
      options.container.find("command:") == std::string::npos && !script.empty()
          ? base::StrCat(", command: [sh, -c, ", nlohmann::json(script).dump(), "]")
          : "";
  replicas_ += base::StrCat("    ", type, ":\n      replicas: ", options.replicas,
                            "\n      restartPolicy: ", options.restart,
                            options.type.empty() ? "" : "\n      ", options.type,
                            "\n      template: {spec: {containers: [{name: tensorflow, image: test",
                            command, options.container.empty() ? "" : ", ", options.container, "}]",
                            options.pod.empty() ? "" : ", ", options.pod, "}}\n");
  return *this;
}

TestJob& TestJob::Spec(const std::string& line) {
  spec_ += base::StrCat("  ", line, "\n");
  return *this;
}

TestJob& TestJob::Policy(const std::string& line) {
  policy_ += base::StrCat("    ", line, "\n");
  return *this;
}

std::string TestJob::Yaml() const {
  return base::StrCat("apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: ", name_,
                      "}\nspec:\n", spec_, policy_.empty() ? "" : "  runPolicy:\n", policy_,
                      "  tfReplicaSpecs:\n", replicas_);
}

TestRun::TestRun() {
  folder_ = fs::temp_directory_path() / "trainyard-run-XXXXXX";
  if (mkdtemp(folder_.data()) == nullptr) std::abort();
  mark_ = base::StrCat("TRAINYARD_TEST_MARK=", folder_);
}

TestRun::~TestRun() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const pid_t pid : Processes()) kill(pid, SIGKILL);
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string TestRun::WriteFile(const std::string& name, const std::string& content) const {
  const fs::path path = fs::path(folder_) / name;
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
  return path.string();
}

std::string TestRun::ReadFile(const std::string& name) const {
  return Slurp(fs::path(folder_) / name);
}

void TestRun::Start(const std::string& yaml, const std::vector<std::string>& flags) {
  std::vector<std::string> args = {TRAINYARD_BINARY, "run", WriteFile("job.yaml", yaml),
                                   base::StrCat("--work_dir=", folder_, "/work")};
  args.insert(args.end(), flags.begin(), flags.end());
  std::vector<std::string> environment = {mark_};
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  for (const auto& [name, value] : environment_)
    environment.push_back(base::StrCat(name, "=", value));
  std::vector<char*> argv;
  std::vector<char*> envp;
  for (std::string& arg : args) argv.push_back(arg.data());
  for (std::string& entry : environment) envp.push_back(entry.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  absl::StatusOr<Pipe> pipe = MakePipe();
  if (!pipe.ok()) std::abort();
  started_ = absl::Now();
  output_.clear();
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    dup2(pipe->write_end.get(), STDOUT_FILENO);
    dup2(pipe->write_end.get(), STDERR_FILENO);
    if (user_ && (setgid(*user_) != 0 || setuid(*user_) != 0)) _exit(98);
    if (chdir(folder_.c_str()) == 0) execve(argv[0], argv.data(), envp.data());
    _exit(99);
  }
  stdout_ = std::move(pipe->read_end);
}

bool TestRun::ReadSome(absl::Time deadline) {
  struct pollfd entry{stdout_.get(), POLLIN, 0};
  if (poll(&entry, 1, Milliseconds(deadline)) != 1) return false;
  char data[4096];
  const ssize_t size = read(stdout_.get(), data, sizeof(data));
  if (size <= 0) return false;
  output_.append(data, static_cast<size_t>(size));
  return true;
}

bool TestRun::WaitFor(const std::string& text, absl::Duration deadline) {
  const absl::Time end = absl::Now() + deadline;
  while (output_.find(text) == std::string::npos) {
    if (!ReadSome(end)) return false;
  }
  return true;
}

void TestRun::Signal(int number) const { kill(pid_, number); }

RunOutcome TestRun::Wait(absl::Duration deadline) {
  const absl::Time end = absl::Now() + deadline;
  while (ReadSome(end)) {
  }
  RunOutcome outcome;
  int status = 0;
  const bool ended = AwaitEnd(pid_, end);
  if (!ended) kill(pid_, SIGKILL);
  waitpid(pid_, &status, 0);
  pid_ = -1;
  outcome.duration = absl::Now() - started_;
  outcome.output = output_;
  if (ended) outcome.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return outcome;
}

RunOutcome TestRun::Run(const std::string& yaml, const std::vector<std::string>& flags) {
  Start(yaml, flags);
  return Wait();
}

std::vector<pid_t> TestRun::Processes() const {
  std::vector<pid_t> pids;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid) || pid == pid_) continue;
    if (Slurp(entry.path() / "environ").find(mark_) != std::string::npos) pids.push_back(pid);
  }
  return pids;
}

int TestRun::CountProcesses() const { return static_cast<int>(Processes().size()); }

std::vector<std::string> TestRun::Survivors(absl::Duration deadline) const {
  const absl::Time end = absl::Now() + deadline;
  std::vector<std::string> survivors;
  for (const pid_t pid : Processes()) {
    if (AwaitEnd(pid, end)) continue;
    survivors.push_back(
        base::StrCat(pid, " ", Slurp(fs::path("/proc") / std::to_string(pid) / "cmdline")));
  }
  return survivors;
}

}  // namespace tfjob
