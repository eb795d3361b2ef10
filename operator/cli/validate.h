// `trainyard validate job.yaml…`: every problem of TFJob manifests at once, with file and line.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "operator/cli/manifest.h"

namespace tfjob {

// What is wrong with one manifest: lines "FILE:LINE: path: message", in the order of the file.
struct Diagnosis {
  TfJob job;  // defaults not yet applied
  std::vector<std::string> errors;
  std::vector<std::string> warnings;
};
Diagnosis Diagnose(const Manifest& manifest);

// Checks each file ("-" is standard input), prints the problems to `err` and one line for each
// valid job to `out`. Exit code 0, or 2 when any file has an error.
int ValidateFiles(const std::vector<std::string>& paths, std::ostream& out, std::ostream& err);

}  // namespace tfjob
