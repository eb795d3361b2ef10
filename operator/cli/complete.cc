#include "operator/cli/complete.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "operator/api/names.h"

namespace tfjob {
namespace {

// The name by which code and users know an argument: the long one of a flag.
std::string NameOf(const CLI::Option& option) {
  if (!option.get_lnames().empty()) return option.get_lnames().front();
  return option.get_name(/*positional=*/true);
}

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }
bool IsRepeatable(const CLI::Option& option) { return option.get_items_expected_max() > 1; }

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// The values between the braces of a type that is described as "TEXT:{a,b}".
std::vector<std::string> ListedValues(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  const size_t close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {};
  return absl::StrSplit(type.substr(open + 1, close - open - 1), ',', absl::SkipEmpty());
}

// One command line, read up to the word that is being typed.
class Reader {
 public:
  Reader(const CLI::App& command, const AskNames& names) : command_(command), names_(names) {}

  // A word that is complete.
  void Read(const std::string& word) {
    if (pending_ != nullptr) {
      typed_[NameOf(*pending_)] = word;
      pending_ = nullptr;
    } else if (!only_positionals_ && word == "--") {
      only_positionals_ = true;
    } else if (!only_positionals_ && word.size() > 1 && word[0] == '-') {
      ReadFlag(word);
    } else {
      ReadPositional(word);
    }
  }

  Completion Finish(const std::string& word) {
    if (pending_ != nullptr) return Values(*pending_, "", word);
    const size_t equals = word.find('=');
    if (!only_positionals_ && word.starts_with("--") && equals != std::string::npos) {
      const CLI::Option* option = command_.get_option_no_throw(word.substr(0, equals));
      if (option == nullptr || !TakesValue(*option)) return {};
      return Values(*option, word.substr(0, equals + 1), word.substr(equals + 1));
    }
    if (!only_positionals_ && word.starts_with("-")) return Flags(word);
    const CLI::Option* positional = Positional();
    return positional == nullptr ? Completion() : Values(*positional, "", word);
  }

 private:
  void ReadFlag(const std::string& word) {
    const size_t equals = word.find('=');
    const bool is_long = word.starts_with("--");
    // "-nteam" is "-n team".
    const std::string name = is_long ? word.substr(0, equals) : word.substr(0, 2);
    const CLI::Option* option = command_.get_option_no_throw(name);
    if (option == nullptr) return;
    used_.insert(option);
    if (!TakesValue(*option)) return;
    if (is_long && equals != std::string::npos) {
      typed_[NameOf(*option)] = word.substr(equals + 1);
    } else if (!is_long && word.size() > 2) {
      typed_[NameOf(*option)] = word.substr(2);
    } else {
      pending_ = option;
    }
  }

  void ReadPositional(const std::string& word) {
    const CLI::Option* option = Positional();
    if (option == nullptr) return;
    typed_[NameOf(*option)] = word;
    if (!IsRepeatable(*option)) ++positionals_;
  }

  // The argument without a flag that comes next.
  const CLI::Option* Positional() const {
    size_t index = 0;
    for (const CLI::Option* option : command_.get_options()) {
      if (option->get_positional() && index++ == positionals_) return option;
    }
    return nullptr;
  }

  Completion Flags(const std::string& word) const {
    Completion out;
    for (const CLI::Option* option : command_.get_options()) {
      if (used_.contains(option) && !IsRepeatable(*option)) continue;
      for (const std::string& name : option->get_lnames()) {
        const std::string flag = "--" + name;
        if (!flag.starts_with(word)) continue;
        out.candidates.push_back({flag, FirstLine(option->get_description())});
      }
      if (!option->get_lnames().empty()) continue;
      for (const std::string& name : option->get_snames()) {
        const std::string flag = "-" + name;
        if (!flag.starts_with(word)) continue;
        out.candidates.push_back({flag, FirstLine(option->get_description())});
      }
    }
    return out;
  }

  // `before`: "--flag=", which belongs to the word.
  Completion Values(const CLI::Option& option, const std::string& before,
                    const std::string& begun) const {
    static const std::set<std::string> kFiles = {"manifest", "manifests", "kubeconfig", "work_dir",
                                                 "volume"};
    static const std::map<std::string, NameKind> kNames = {
        {"job", NameKind::kJob}, {"pod", NameKind::kPod}, {"namespace", NameKind::kNamespace}};
    Completion out{.files = kFiles.contains(NameOf(option))};
    std::vector<std::string> values = ListedValues(option);
    if (NameOf(option) == "type") values = {kChief, kEvaluator, kMaster, kPs, kWorker};
    // `run --job` names a job of the manifest, not of the cluster.
    const bool of_cluster = command_.get_option_no_throw("--kubeconfig") != nullptr;
    const auto kind = kNames.find(NameOf(option));
    if (kind != kNames.end() && of_cluster) values = names_(kind->second, typed_);
    for (const std::string& value : values) {
      if (value.starts_with(begun)) out.candidates.push_back({before + value, ""});
    }
    return out;
  }

  const CLI::App& command_;
  const AskNames& names_;
  const CLI::Option* pending_ = nullptr;  // a flag that waits for its value
  bool only_positionals_ = false;
  size_t positionals_ = 0;  // how many are there
  std::set<const CLI::Option*> used_;
  TypedArguments typed_;
};

constexpr char kBash[] = R"(# trainyard for bash: source <(trainyard completion bash)
_trainyard() {
  local line=${COMP_LINE:0:COMP_POINT} program=${COMP_WORDS[0]/#\~/$HOME}
  local -a words=() answer=()
  local entry
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  # What bash takes for words of their own ends at these.
  local last=${words[-1]}
  local before=${last%"${last##*[=:]}"}
  COMPREPLY=()
  mapfile -t answer < <("$program" __complete "${words[@]:1}" 2>/dev/null)
  [[ ${#answer[@]} -gt 0 ]] || return 0
  [[ ${answer[-1]} == :0 ]] || compopt +o default 2>/dev/null
  for entry in "${answer[@]:0:${#answer[@]}-1}"; do
    entry=${entry%%$'\t'*}
    COMPREPLY+=("${entry#"$before"}")
  done
}
complete -o default -F _trainyard trainyard
)";

constexpr char kZsh[] = R"(#compdef trainyard
# trainyard for zsh: source <(trainyard completion zsh), after compinit
_trainyard() {
  local -a answer described
  local entry
  answer=("${(@f)$(${~words[1]} __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  [[ -n $answer[-1] ]] || return 1
  for entry in "${(@)answer[1,-2]}"; do
    described+=("${${entry%%$'\t'*}//:/\\:}:${${entry#*$'\t'}#$entry}")
  done
  if (( $#described )); then
    _describe -V trainyard described
  elif [[ $answer[-1] == :0 ]]; then
    _files
  else
    return 1
  fi
}
if [[ ${funcstack[1]} == _trainyard ]]; then
  _trainyard "$@"
else
  compdef _trainyard trainyard
fi
)";

constexpr char kFish[] = R"(# trainyard for fish: trainyard completion fish | source
function __trainyard_complete
    set -l current (commandline -ct)
    set -l words (commandline -opc) "$current"
    set -l answer ($words[1] __complete $words[2..-1] 2>/dev/null)
    or return
    if test (count $answer) -gt 1
        printf '%s\n' $answer[1..-2]
    else if test "$answer[-1]" = :0
        __fish_complete_path "$current"
    end
end
complete -c trainyard -f -a '(__trainyard_complete)'
)";

}  // namespace

Completion Complete(const CLI::App& app, const std::vector<std::string>& words,
                    const AskNames& names) {
  if (words.empty()) return {};
  if (words.size() == 1 && !words[0].starts_with("-")) {
    Completion out;
    for (const CLI::App* command : app.get_subcommands({})) {
      if (!command->get_name().starts_with(words[0])) continue;
      out.candidates.push_back({command->get_name(), FirstLine(command->get_description())});
    }
    return out;
  }
  const CLI::App* chosen = &app;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == words[0]) chosen = command;
  }
  if (chosen == &app && words.size() > 1) return {};  // no such command
  Reader reader(*chosen, names);
  for (size_t i = chosen == &app ? 0 : 1; i + 1 < words.size(); ++i) reader.Read(words[i]);
  return reader.Finish(words.back());
}

std::string CompletionText(const Completion& completion) {
  std::string out;
  for (const Candidate& candidate : completion.candidates) {
    absl::StrAppend(&out, candidate.word, candidate.about.empty() ? "" : "\t", candidate.about,
                    "\n");
  }
  // kubectl's and cobra's bits: 4 means no files.
  return absl::StrCat(out, completion.files ? ":0\n" : ":4\n");
}

std::string CompletionScript(const std::string& shell) {
  return shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish;
}

}  // namespace tfjob
