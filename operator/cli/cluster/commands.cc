#include "operator/cli/cluster/commands.h"

#include <iostream>

#include "base/exit_codes.h"
#include "operator/cli/cluster/describe.h"

namespace tfjob {

CLI::App* ClusterCommands::Add(CLI::App& app, const char* name, const char* help, bool job,
                               Body body) {
  CLI::App* command = app.add_subcommand(name, help);
  command->add_option("--kubeconfig", connection_.kubeconfig,
                      "kubeconfig file (default: $KUBECONFIG, the pod's service account, "
                      "~/.kube/config)");
  command->add_option("--context", connection_.context, "context of the kubeconfig");
  CLI::Option* ns = command->add_option("-n,--namespace", connection_.ns,
                                        "namespace (default: the context's, else default)");
  if (job) {
    command->add_option("job", job_, "name of the TFJob")->required();
  } else {
    command->add_flag("-A,--all-namespaces", connection_.all_namespaces, "those of all namespaces")
        ->excludes(ns);
  }
  commands_[command] = std::move(body);
  return command;
}

void ClusterCommands::AddOutput(CLI::App* command) {
  command->add_option("-o,--output", connection_.output, "json or yaml (default: text)")
      ->check(CLI::IsMember({"json", "yaml"}));
}

void ClusterCommands::AddTo(CLI::App& app) {
  CLI::App* list = Add(app, "list", "the TFJobs of a cluster", /*job=*/false,
                       [](const Cluster& c) { return ListJobs(c, std::cout, std::cerr); });
  list->add_option("-o,--output", connection_.output, "wide, json or yaml (default: a table)")
      ->check(CLI::IsMember({"wide", "json", "yaml"}));

  AddOutput(Add(app, "describe", "a TFJob's state: what stands in its way and what to do",
                /*job=*/true,
                [this](const Cluster& c) { return DescribeJob(c, job_, std::cout, std::cerr); }));

  CLI::App* logs = Add(app, "logs", "the output of a TFJob's replicas", /*job=*/true,
                       [this](const Cluster& c) { return ShowLogs(c, job_, logs_, 1, std::cerr); });
  logs->add_option("pod", logs_.pod, "one of its pods: mine-worker-0, or worker-0");
  logs->add_flag("-f,--follow", logs_.follow, "until the job has ended, over restarts");
  logs->add_option("--type", logs_.type, "replicas of this type");
  logs->add_option("--index", logs_.index, "replicas with this index")
      ->check(CLI::NonNegativeNumber);
  logs->add_option("--tail", logs_.tail, "only the last lines of each")
      ->check(CLI::NonNegativeNumber);
  logs->add_option("-c,--container", logs_.container, "container (default: tensorflow)");
  logs->add_option("--color", logs_.color, "colour of the prefixes: auto, always or never")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "always", "never"}));

  CLI::App* top =
      Add(app, "top", "the TFJobs of a cluster, shown anew until Ctrl-C", /*job=*/false,
          [this](const Cluster& c) { return WatchJobs(c, top_, std::cout, std::cerr); });
  AddOutput(top);
  top->add_option("--interval", top_.interval_seconds, "seconds between two looks")
      ->capture_default_str();
  top->add_option("--rounds", top_.rounds, "end after so many looks (default: never)")
      ->check(CLI::NonNegativeNumber);

  CLI::App* wait = Add(app, "wait", "wait for a TFJob", /*job=*/true, [this](const Cluster& c) {
    return WaitForJob(c, job_, wait_, std::cout, std::cerr);
  });
  AddOutput(wait);
  wait->add_option("--for", wait_.awaited, "Succeeded, Failed, Running, or finished: either end")
      ->capture_default_str()
      ->check(CLI::IsMember({"Succeeded", "Failed", "Running", "finished"}));
  wait->add_option("--timeout", wait_.timeout, "such as 90s, 10m, 1h30m")->capture_default_str();

  AddOutput(
      Add(app, "suspend", "end a TFJob's pods until it is resumed", /*job=*/true,
          [this](const Cluster& c) { return SuspendJob(c, job_, true, std::cout, std::cerr); }));
  AddOutput(Add(app, "resume", "let a suspended TFJob run", /*job=*/true, [this](const Cluster& c) {
    return SuspendJob(c, job_, false, std::cout, std::cerr);
  }));

  CLI::App* scale =
      Add(app, "scale", "change the number of a TFJob's replicas", /*job=*/true,
          [this](const Cluster& c) { return ScaleJob(c, job_, scale_, std::cout, std::cerr); });
  AddOutput(scale);
  scale->add_option("replicas", scale_.replicas, "how many there shall be")->required();
  scale->add_option("--type", scale_.type, "replica type")->capture_default_str();

  CLI::App* remove =
      Add(app, "delete", "delete a TFJob and its pods", /*job=*/true,
          [this](const Cluster& c) { return RemoveJob(c, job_, delete_, std::cout, std::cerr); });
  AddOutput(remove);
  remove->add_flag("--wait", delete_.wait, "until all of it is gone");
  remove->add_option("--timeout", delete_.timeout, "of --wait")->capture_default_str();
}

std::optional<int> ClusterCommands::Run() const {
  for (const auto& [command, body] : commands_) {
    if (!command->parsed()) continue;
    const absl::StatusOr<Cluster> cluster = Connect(connection_);
    if (cluster.ok()) return body(*cluster);
    std::cerr << "trainyard: " << cluster.status().message() << "\n";
    return base::ExitCodeFor(cluster.status());
  }
  return std::nullopt;
}

}  // namespace tfjob
