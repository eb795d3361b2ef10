// trainyard-operator: flags → options → connection → the operator's life → exit code.
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "operator/check.h"
#include "operator/flags.h"
#include "operator/kube/config.h"
#include "operator/operator_process.h"

namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

// Few arenas, and freed memory goes back: the operator's peak is short, its life is long. No fast
// bins: they keep memory in pieces, and putting these together costs 6 % of the CPU under load.
void TuneMemory() {
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
  mallopt(M_MMAP_THRESHOLD, 512 * 1024);
  mallopt(M_MXFAST, 0);
}

// SIGTERM and SIGINT, as a request to stop; the second one ends the process at once.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);  // before any other thread starts
    thread_ = std::thread([this] { Wait(); });
  }
  ~Signals() {
    ended_.request_stop();
    pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
  }
  std::stop_token token() const { return stop_.get_token(); }

 private:
  void Wait() {
    for (int seen = 0; !ended_.stop_requested(); ++seen) {
      int signal = 0;
      if (sigwait(&set_, &signal) != 0 || ended_.stop_requested()) continue;
      if (seen > 0) _exit(1);
      base::LogInfo("stopping", {{"signal", signal}});
      stop_.request_stop();
    }
  }

  sigset_t set_;
  std::stop_source stop_;
  std::stop_source ended_;
  std::thread thread_;
};

void LogStart(const tfjob::OperatorOptions& options, const std::string& server) {
  base::LogInfo(
      "trainyard-operator starts",
      {{"version", TRAINYARD_VERSION},
       {"server", server},
       {"namespaces", options.namespaces.empty() ? "all" : absl::StrJoin(options.namespaces, ",")},
       {"threads", options.threads},
       {"leader_elect", options.leader_elect ? options.leader_id : "off"},
       {"compat", options.compat_v19 ? "v1.9" : "none"},
       {"gang_scheduler", options.gang_scheduler.empty() ? "none" : options.gang_scheduler},
       {"default_clean_pod_policy", options.default_clean_pod_policy},
       {"legacy_labels", options.legacy_labels ? "on" : "off"},
       {"retryable_exit_codes", options.retryable_exit_codes.empty()
                                    ? "128-255"
                                    : absl::StrJoin(options.retryable_exit_codes, ",")},
       {"metrics", options.metrics_address},
       {"health", options.health_address},
       {"page", options.page_address}});
  for (const std::string& note : options.notes) base::LogWarning("flag", {{"note", note}});
}

int Fail(const absl::Status& status) {
  base::LogError("trainyard-operator ends", {{"err", status.message()}});
  return absl::IsInvalidArgument(status) ? base::kExitUsage : 1;
}

int Main(const std::vector<std::string>& arguments) {
  const absl::StatusOr<tfjob::OperatorOptions> options = tfjob::ParseFlags(arguments, Environment);
  if (!options.ok()) {
    std::cerr << "trainyard-operator: " << options.status().message() << "\n";
    return base::kExitUsage;
  }
  if (options->show_help || options->show_version) {
    std::cout << (options->show_help ? tfjob::FlagsHelp()
                                     : "trainyard-operator " TRAINYARD_VERSION "\n");
    return base::kExitOk;
  }
  base::ConfigureLog(options->log_format, options->log_level);
  TuneMemory();
  const Signals signals;
  absl::StatusOr<kube::Config> config = kube::LoadConfig(
      {.kubeconfig = options->kubeconfig, .context = options->context, .master = options->master});
  if (!config.ok()) return Fail(config.status());
  tfjob::Surroundings surroundings{.server = config->server, .ns = config->ns, .host = HostName()};
  if (!options->check) LogStart(*options, config->server);
  absl::StatusOr<std::shared_ptr<kube::Transport>> transport = kube::MakeTransport(*config);
  if (!transport.ok()) return Fail(transport.status());
  surroundings.transport = *std::move(transport);
  if (options->page_address != "0") {
    absl::StatusOr<std::shared_ptr<kube::Transport>> nobody =
        kube::MakeTransport(kube::WithoutCredentials(*std::move(config)));
    if (!nobody.ok()) return Fail(nobody.status());
    surroundings.nobody = *std::move(nobody);
  }
  if (options->check) {
    const std::vector<tfjob::Finding> findings =
        tfjob::CheckInstallation(*options, surroundings, signals.token());
    std::cout << tfjob::ToText(findings);
    return tfjob::AllHold(findings) ? base::kExitOk : 1;
  }
  const absl::Status ended = tfjob::RunOperator(*options, surroundings, signals.token());
  if (ended.ok()) {
    base::LogInfo("stopped");
    return base::kExitOk;
  }
  return Fail(ended);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int code = Main(std::vector<std::string>(argv + 1, argv + argc));
    std::cout.flush();
    // cpprestsdk ends its threads in the destructor of a global object, and may wait there for a
    // task that only they could run. Nothing is left to do.
    std::_Exit(code);
  } catch (const std::exception& error) {
    std::cerr << "trainyard-operator: internal error: " << error.what() << "\n";
    return 1;
  }
}
