#include "trainer/data/data_main.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/exit_codes.h"
#include "base/nearest.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/data/download.h"
#include "trainer/data/idx.h"
#include "trainer/data/image_example.h"
#include "trainer/data/synthesize.h"

namespace trainer {
namespace {

constexpr int64_t kMaxDrawn = 10'000'000;

struct Arguments {
  std::string data_dir;
  std::string output_dir;
  std::string mirror;
  int64_t train = 60000;
  int64_t test = 10000;
  uint64_t seed = 1;
  int64_t files = 1;
};

absl::Status Required(const std::string& value, std::string_view flag) {
  if (!value.empty()) return absl::OkStatus();
  return base::UsageError(base::StrCat(flag, " is required"));
}

absl::Status Synthesize(const Arguments& arguments) {
  RETURN_IF_ERROR(Required(arguments.data_dir, "--data_dir"));
  const Datasets datasets = SynthesizeDigits(
      {.train_size = arguments.train, .test_size = arguments.test, .seed = arguments.seed});
  RETURN_IF_ERROR(WriteIdxFolder(arguments.data_dir, datasets));
  std::cout << "Drew " << arguments.train << " digits to train on and " << arguments.test
            << " to test with into " << arguments.data_dir
            << "\nTrain on them: trainer --data_dir=" << arguments.data_dir << "\n";
  return absl::OkStatus();
}

absl::Status RunDownload(const Arguments& arguments) {
  RETURN_IF_ERROR(Required(arguments.mirror, "--mirror"));
  RETURN_IF_ERROR(Required(arguments.data_dir, "--data_dir"));
  DownloadOptions options;
  options.mirror = arguments.mirror;
  options.folder = arguments.data_dir;
  options.on_file = [](std::string_view name, std::string_view what) {
    std::cout << name << ": " << what << ", checksum is right" << std::endl;
  };
  RETURN_IF_ERROR(Download(options));
  std::cout << "Train on them: trainer --data_dir=" << arguments.data_dir << "\n";
  return absl::OkStatus();
}

absl::Status ToTfRecord(const Arguments& arguments) {
  RETURN_IF_ERROR(Required(arguments.data_dir, "--data_dir"));
  RETURN_IF_ERROR(Required(arguments.output_dir, "--output_dir"));
  ASSIGN_OR_RETURN(const Datasets datasets, LoadIdxFolder(arguments.data_dir, {}));
  const std::vector<std::pair<std::string, const Dataset*>> sets = {
      {"train", datasets.train.get()},
      {"validation", datasets.validation.get()},
      {"test", datasets.test.get()}};
  for (const auto& [name, dataset] : sets) {
    if (dataset->size == 0) continue;
    const int64_t files = name == "train" ? std::min(arguments.files, dataset->size) : 1;
    ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                     WriteImageRecords(*dataset, arguments.output_dir, name, files));
    std::cout << "Wrote " << dataset->size << " examples to " << paths.front()
              << (paths.size() > 1 ? base::StrCat(" … ", paths.back()) : "") << "\n";
  }
  std::cout << "Train on them: trainer --data_dir=" << arguments.output_dir << "\n";
  return absl::OkStatus();
}

// One command: its parser and what it does.
struct Command {
  CLI::App* app;
  absl::Status (*run)(const Arguments&);
};

std::vector<Command> AddCommands(CLI::App& app, Arguments& arguments) {
  app.require_subcommand(1);
  CLI::App* const synthesize = app.add_subcommand(
      "synthesize", "Draw handwritten-looking digits into MNIST-format idx files");
  synthesize->add_option("--data_dir", arguments.data_dir, "Folder to write (required)");
  synthesize->add_option("--train", arguments.train, "Digits in the training file")
      ->check(CLI::Range(int64_t{1}, kMaxDrawn))
      ->capture_default_str();
  synthesize->add_option("--test", arguments.test, "Digits in the test file")
      ->check(CLI::Range(int64_t{1}, kMaxDrawn))
      ->capture_default_str();
  synthesize->add_option("--seed", arguments.seed, "The same seed draws the same bytes anywhere")
      ->capture_default_str();

  CLI::App* const download = app.add_subcommand(
      "download", "Fetch the four MNIST files, checked against their published sums");
  download->add_option("--mirror", arguments.mirror,
                       "http(s):// or file:// address of a folder that holds them (required)");
  download->add_option("--data_dir", arguments.data_dir, "Folder to put them into (required)");

  CLI::App* const to_tfrecord =
      app.add_subcommand("to-tfrecord", "Convert idx files to TFRecord files of tf.train.Example");
  to_tfrecord->add_option("--data_dir", arguments.data_dir, "Folder of idx files (required)");
  to_tfrecord->add_option("--output_dir", arguments.output_dir, "Folder to write (required)");
  to_tfrecord->add_option("--files", arguments.files, "Number of files for the training set")
      ->check(CLI::Range(int64_t{1}, int64_t{99999}))
      ->capture_default_str();
  return {{synthesize, Synthesize}, {download, RunDownload}, {to_tfrecord, ToTfRecord}};
}

std::string Suggestion(const std::string& given, const std::vector<std::string>& names) {
  const std::string nearest = base::Nearest(given.substr(0, given.find('=')), names);
  return nearest.empty() ? "" : base::StrCat("; did you mean ", nearest, "?");
}

absl::Status CheckNothingUnknown(const CLI::App& command) {
  const std::vector<std::string> unknown = command.remaining();
  if (unknown.empty()) return absl::OkStatus();
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) names.push_back(option->get_name());
  return base::UsageError(base::StrCat("trainer data ", command.get_name(), ": unknown argument ",
                                       unknown.front(), Suggestion(unknown.front(), names)));
}

int Report(const absl::Status& status) {
  if (!status.ok()) {
    std::cerr << "error: " << std::string_view(status.message().data(), status.message().size())
              << "\n";
  }
  return base::ExitCodeFor(status);
}

// The usage error for a command that is none of ours, or that was left out.
absl::Status UnknownCommand(const std::vector<Command>& commands, int argc,
                            const char* const* argv) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.app->get_name());
  const std::string choice = "trainer data: expected synthesize, download or to-tfrecord";
  if (argc < 2) return base::UsageError(choice);
  return base::UsageError(base::StrCat(choice, ", found ", argv[1], Suggestion(argv[1], names)));
}

}  // namespace

int DataMain(int argc, const char* const* argv) {
  Arguments arguments;
  CLI::App app("Make, fetch and convert training data", "trainer data");
  const std::vector<Command> commands = AddCommands(app, arguments);
  // Unknown flags are looked at here, to suggest the nearest one.
  for (const Command& command : commands) command.app->allow_extras();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    if (app.get_subcommands().empty()) return Report(UnknownCommand(commands, argc, argv));
    return Report(base::UsageError(base::StrCat("trainer data: ", error.what())));
  }
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    const absl::Status unknown = CheckNothingUnknown(*command.app);
    return Report(unknown.ok() ? command.run(arguments) : unknown);
  }
  return base::kExitUsage;
}

}  // namespace trainer
