// `trainyard convert FILE`: TFJobs of old versions as kubeflow.org/v1; other objects stay as they
// are.
#pragma once

#include <ostream>
#include <string>

namespace tfjob {

struct ConvertOptions {
  std::string manifest;         // the file; "-" is standard input
  std::string output = "yaml";  // or json: one object, or a List of several
};

// Prints all documents to `out`, and to `err` a line for each change "FILE:LINE: path: what". Of
// documents that need no change the YAML output keeps the text, comments too. Exit code 0; 2 with
// every problem on `err` and nothing on `out` where a document is of no known form, or the outcome
// is no valid TFJob.
int ConvertFile(const ConvertOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tfjob
