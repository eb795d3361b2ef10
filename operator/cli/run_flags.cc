#include "operator/cli/run_flags.h"

namespace tfjob {

void AddRunFlags(CLI::App& app, RunOptions& options) {
  app.add_option("manifest", options.manifest,
                 "A file with a kubeflow.org/v1 TFJob (- is standard input)")
      ->required();
  app.add_option("--job", options.job, "Which TFJob of the file to run, by name");
  app.add_option("--work_dir", options.work_dir,
                 "Folder for volumes and logs (default: ./trainyard-run/<job>)");
  app.add_option("--volume", options.volumes,
                 "NAME=FOLDER: use this folder for the volume or claim NAME (repeatable)");
  app.add_option("--gpus", options.gpus,
                 "GPUs to hand out: a count, or indexes with a comma such as 0,2 (default: all)");
  app.add_flag("--no_sandbox", options.no_sandbox,
               "Use no namespaces: rewrite mount paths in command, args and env to the folders");
  app.add_flag("--resume", options.resume, "Run the job although runPolicy.suspend is true");
  app.add_option("--grace", options.grace_seconds,
                 "Seconds between SIGTERM and SIGKILL (at most 4)")
      ->capture_default_str();
  app.add_option("--color", options.color, "Colour of the log's prefixes: auto, always or never")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

}  // namespace tfjob
