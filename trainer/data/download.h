// Fetches the four MNIST files from a mirror that the user names: resumed where a cut left off,
// checked against the published sums, and put in place whole.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace trainer {

struct DownloadFile {
  std::string name;
  std::string sha256;  // lower-case hexadecimal; "" is not checked
};

// The compressed files as their authors published them, with their sums.
std::vector<DownloadFile> MnistFiles();

struct DownloadOptions {
  std::string mirror;  // http://, https:// or file:// URL of the folder that holds the files
  std::string folder;  // where to put them
  std::vector<DownloadFile> files = MnistFiles();
  absl::Duration timeout = absl::Seconds(30);  // for the mirror to answer or to go on
  int attempts = 3;                            // for each file, each going on where the last ended
  // Called when a file is complete, with what was done ("fetched", "already there").
  std::function<void(std::string_view name, std::string_view what)> on_file;
};

// kInvalidArgument: a URL that is none; kDataLoss: wrong checksum, a file that the mirror has not
// or the folder cannot take; kUnavailable: the mirror does not answer or a transfer was cut: what
// has come stays as NAME.part, and the next call goes on from there.
absl::Status Download(const DownloadOptions& options);

}  // namespace trainer
