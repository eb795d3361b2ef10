// What a shell may offer for a command line that is being typed, told from the description of the
// program's commands and flags. PURE, but for the names that a cluster is asked for by `names`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tfjob {

// Names that only a cluster knows.
enum class NameKind { kJob, kPod, kNamespace };

// `typed`: what has been typed so far, by the long name of the flag or of the positional argument
// ("namespace", "job").
using TypedArguments = std::map<std::string, std::string>;
using AskNames = std::function<std::vector<std::string>(NameKind, const TypedArguments& typed)>;

struct Candidate {
  std::string word;
  std::string about;  // one line, may be empty
  bool operator==(const Candidate&) const = default;
};

struct Completion {
  std::vector<Candidate> candidates;  // those that go on from the word that is being typed
  bool files = false;                 // the shell may offer files
};

// `words`: all after the program's name; the last one is being typed and may be empty.
Completion Complete(const CLI::App& app, const std::vector<std::string>& words,
                    const AskNames& names);

// As shells and kubectl read it: a candidate a line, a tab before what it is about; at last ":0"
// where files may be offered, else ":4".
std::string CompletionText(const Completion& completion);

// The script that makes `shell` (bash, zsh, fish) ask this program.
std::string CompletionScript(const std::string& shell);

}  // namespace tfjob
