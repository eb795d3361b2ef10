// trainyard: runs, checks and renders TFJob manifests on this machine, and looks after TFJobs on a
// cluster.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "base/exit_codes.h"
#include "base/nearest.h"
#include "operator/cli/cluster/cluster_names.h"
#include "operator/cli/cluster/commands.h"
#include "operator/cli/complete.h"
#include "operator/cli/convert.h"
#include "operator/cli/render.h"
#include "operator/cli/run.h"
#include "operator/cli/run_flags.h"
#include "operator/cli/validate.h"

extern char** environ;

namespace {

void AddRenderFlags(CLI::App& app, tfjob::RenderOptions& options) {
  app.add_option("manifest", options.manifest, "manifest file, - for standard input")->required();
  app.add_option("--cluster-domain", options.plan.cluster_domain,
                 "appended to service names, e.g. cluster.local");
  app.add_option("-n,--namespace", options.plan.default_namespace,
                 "namespace of a job that names none")
      ->capture_default_str();
  app.add_flag_callback(
      "--compat-v1.9", [&options] { options.plan.compat_v19 = true; },
      "exactly what training-operator v1.9 creates");
}

// What is wrong with the word after `trainyard`, "" when nothing is.
std::string UnknownCommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return "";
  const std::string nearest = base::Nearest(argv[1], names);
  std::string problem = app.get_name() + ": no command \"" + argv[1] + "\"; ";
  if (!nearest.empty()) return problem + "did you mean \"" + nearest + "\"?";
  problem += "there are";
  for (const std::string& name : names) problem += " " + name;
  return problem;
}

// How the user called this program: kubectl runs `kubectl-trainyard` for `kubectl trainyard`.
std::string ProgramName(const char* path) {
  const std::string name = path == nullptr ? "" : std::filesystem::path(path).filename().string();
  return name == "kubectl-trainyard" ? "kubectl trainyard" : "trainyard";
}

// The words of a command line that a shell wants completed: `trainyard __complete WORDS…`, or
// kubectl's `kubectl_complete-trainyard WORDS…`.
std::optional<std::vector<std::string>> WordsToComplete(int argc, char** argv) {
  const std::string name = std::filesystem::path(argv[0]).filename().string();
  if (name == "kubectl_complete-trainyard") return std::vector<std::string>(argv + 1, argv + argc);
  if (argc < 2 || argv[1] != std::string("__complete")) return std::nullopt;
  return std::vector<std::string>(argv + 2, argv + argc);
}

// Silent, and soon over, whatever the cluster does: a shell waits.
int PrintCompletions(const CLI::App& app, const std::vector<std::string>& words) {
  signal(SIGALRM, [](int) { _exit(base::kExitOk); });
  alarm(absl::ToInt64Seconds(tfjob::kCompletionTimeout) + 1);
  const auto names = [](tfjob::NameKind kind, const tfjob::TypedArguments& typed) {
    const absl::StatusOr<tfjob::Cluster> cluster = tfjob::Connect(tfjob::ConnectionOf(typed));
    return cluster.ok() ? tfjob::ClusterNames(*cluster, kind, typed) : std::vector<std::string>();
  };
  std::cout << tfjob::CompletionText(tfjob::Complete(app, words, names));
  return base::kExitOk;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "TFJobs: run, check and render manifests on this machine; look after those of a cluster.",
      ProgramName(argv[0]));
  app.require_subcommand(1);

  tfjob::RunOptions run_options;
  CLI::App* run = app.add_subcommand("run", "run a TFJob as local processes");
  tfjob::AddRunFlags(*run, run_options);

  std::vector<std::string> files;
  CLI::App* validate = app.add_subcommand("validate", "show every problem of TFJob manifests");
  validate->add_option("manifests", files, "manifest files, - for standard input")->required();

  tfjob::RenderOptions render_options;
  CLI::App* render =
      app.add_subcommand("render", "print the services and pods that the operator would create");
  AddRenderFlags(*render, render_options);

  tfjob::ConvertOptions convert_options;
  CLI::App* convert =
      app.add_subcommand("convert", "print TFJobs of old versions as kubeflow.org/v1");
  convert->add_option("manifest", convert_options.manifest, "manifest file, - for standard input")
      ->required();
  convert->add_option("-o,--output", convert_options.output, "yaml or json")
      ->capture_default_str()
      ->check(CLI::IsMember({"yaml", "json"}));

  tfjob::ClusterCommands cluster;
  cluster.AddTo(app);

  std::string shell;
  CLI::App* completion =
      app.add_subcommand("completion", "print a script that completes commands in a shell");
  completion->add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));

  CLI::App* version = app.add_subcommand("version", "print the version");

  if (const auto words = WordsToComplete(argc, argv)) return PrintCompletions(app, *words);
  if (const std::string problem = UnknownCommand(app, argc, argv); !problem.empty()) {
    std::cerr << problem << "\n";
    return base::kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? base::kExitOk
                                : base::kExitUsage;  // help ends well, wrong usage is exit code 2
  }
  if (*validate) return tfjob::ValidateFiles(files, std::cout, std::cerr);
  if (*convert) return tfjob::ConvertFile(convert_options, std::cout, std::cerr);
  if (*render) return tfjob::RenderFile(render_options, std::cout, std::cerr);
  if (const std::optional<int> code = cluster.Run()) return *code;
  if (*completion) {
    std::cout << tfjob::CompletionScript(shell);
    return base::kExitOk;
  }
  if (*version) {
    std::cout << "trainyard " << TRAINYARD_VERSION << "\n";
    return 0;
  }
  for (char** entry = environ; *entry != nullptr; ++entry)
    run_options.environment.emplace_back(*entry);
  std::error_code error;
  run_options.program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) run_options.program = argv[0];
  return tfjob::RunJob(run_options);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "trainyard: internal error: " << error.what() << "\n";
    return 1;
  }
}
