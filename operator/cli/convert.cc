#include "operator/cli/convert.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/exit_codes.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/cli/manifest.h"
#include "operator/cli/old_tfjob.h"
#include "operator/cli/to_yaml.h"
#include "operator/cli/validate.h"

namespace tfjob {
namespace {

// The text between two separators of a file.
struct Chunk {
  int first_line = 1;
  int last_line = 0;
  std::string text;
};

bool IsSeparator(absl::string_view line) {
  return absl::StartsWith(line, "---") &&
         (line.size() == 3 || line[3] == ' ' || line[3] == '\t' || line[3] == '\r');
}

std::vector<Chunk> SplitDocuments(const std::string& text) {
  std::vector<Chunk> chunks(1);
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (IsSeparator(line)) {
      chunks.push_back({.first_line = number});
      // A document may begin beside its separator.
      const absl::string_view rest = line.substr(3);
      chunks.back().text =
          std::string(rest.substr(std::min(rest.find_first_not_of(" \t\r"), rest.size())));
      if (!chunks.back().text.empty()) chunks.back().text += "\n";
    } else {
      absl::StrAppend(&chunks.back().text, line, "\n");
    }
    chunks.back().last_line = number;
  }
  // What follows the last end of line is no line.
  if (absl::EndsWith(text, "\n")) chunks.back().text.pop_back();
  return chunks;
}

// The text of a document that is alone between its separators, else "".
std::string TextOf(const std::vector<Manifest>& documents, const Manifest& document,
                   const std::vector<Chunk>& chunks) {
  for (const Chunk& chunk : chunks) {
    if (document.line < chunk.first_line || document.line > chunk.last_line) continue;
    const auto in_it =
        std::count_if(documents.begin(), documents.end(), [&](const Manifest& other) {
          return other.line >= chunk.first_line && other.line <= chunk.last_line;
        });
    return in_it == 1 ? chunk.text : "";
  }
  return "";
}

// One document of the file on its way.
class Document {
 public:
  Document(Manifest manifest, size_t number) : manifest_(std::move(manifest)), number_(number) {}

  void Convert() {
    if (IsAnyTfJob(manifest_.json)) return ConvertJob(manifest_.json, "");
    const std::string kind = manifest_.kind();
    if (kind != "List" && kind != "TFJobList") return;
    if (!base::At(manifest_.json, "items").is_array()) return;
    Json& items = manifest_.json["items"];
    for (size_t i = 0; i < items.size(); ++i) {
      if (kind == "TFJobList" && items[i].is_object()) {  // items may come without
        for (const char* key : {"apiVersion", "kind"}) {
          if (items[i].contains(key)) continue;
          items[i][key] =
              key == std::string("kind") ? Json(kKind) : base::At(manifest_.json, "apiVersion");
        }
      }
      if (IsAnyTfJob(items[i])) ConvertJob(items[i], absl::StrCat("items[", i, "]."));
    }
    if (kind == "TFJobList" && changed_) manifest_.json["apiVersion"] = kApiVersion;
  }

  const Manifest& manifest() const { return manifest_; }
  bool changed() const { return changed_; }
  // In the order of the file.
  std::vector<std::string> notes() const {
    std::vector<std::pair<int, std::string>> sorted = notes_;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> lines;
    for (auto& [line, text] : sorted) lines.push_back(std::move(text));
    return lines;
  }
  const std::vector<std::string>& errors() const { return errors_; }

 private:
  void Note(const std::string& path, const std::string& message) {
    const int line = manifest_.LineOf(path);
    notes_.emplace_back(line, absl::StrCat(manifest_.file, ":", line, ": ", path, ": ", message));
  }

  void Error(const std::string& path, const std::string& message) {
    errors_.push_back(absl::StrCat(manifest_.file, ":", manifest_.LineOf(path), ": document ",
                                   number_, ": ", path, path.empty() ? "" : ": ", message));
  }

  void ConvertJob(Json& job, const std::string& prefix) {
    Conversion conversion = ConvertTfJob(job);
    for (const ConversionNote& error : conversion.errors) {
      Error(prefix + error.path, error.message);
    }
    for (const ConversionNote& note : conversion.notes) Note(prefix + note.path, note.message);
    if (!conversion.errors.empty()) return;
    changed_ = changed_ || conversion.job != job;
    job = std::move(conversion.job);
    ParsedTfJob parsed = FromJson(job);
    std::vector<FieldError> problems = std::move(parsed.errors);
    if (problems.empty()) problems = Validate(parsed.job);
    for (const FieldError& problem : problems) Error(prefix + problem.path, problem.message);
  }

  Manifest manifest_;
  size_t number_;
  bool changed_ = false;
  std::vector<std::pair<int, std::string>> notes_;  // by line
  std::vector<std::string> errors_;
};

void PrintYaml(const std::vector<Document>& documents, const std::string& text, std::ostream& out) {
  std::vector<Manifest> manifests;
  for (const Document& document : documents) manifests.push_back(document.manifest());
  const std::vector<Chunk> chunks = SplitDocuments(text);
  for (size_t i = 0; i < documents.size(); ++i) {
    std::string kept;
    if (!documents[i].changed()) kept = TextOf(manifests, manifests[i], chunks);
    out << (i == 0 ? "" : "---\n") << (kept.empty() ? ToYaml(manifests[i].json) : kept);
  }
}

void PrintJson(const std::vector<Document>& documents, std::ostream& out) {
  Json items = Json::array();
  for (const Document& document : documents) items.push_back(document.manifest().json);
  const Json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", items}};
  out << (items.size() == 1 ? items[0] : list).dump(2, ' ', false, Json::error_handler_t::replace)
      << "\n";
}

}  // namespace

int ConvertFile(const ConvertOptions& options, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<std::string> text = ReadManifestText(options.manifest);
  const std::string name = options.manifest == "-" ? "stdin" : options.manifest;
  absl::StatusOr<std::vector<Manifest>> manifests =
      text.ok() ? ParseManifests(name, *text) : text.status();
  if (manifests.ok() && manifests->empty()) {
    manifests = absl::InvalidArgumentError(absl::StrCat(name, ":1: it is empty"));
  }
  if (!manifests.ok()) {
    err << std::string(manifests.status().message()) << "\n";
    return base::kExitUsage;
  }
  std::vector<Document> documents;
  bool valid = true;
  for (size_t i = 0; i < manifests->size(); ++i) {
    documents.emplace_back(std::move((*manifests)[i]), i + 1);
    documents.back().Convert();
    valid = valid && documents.back().errors().empty();
  }
  for (const Document& document : documents) {
    for (const std::string& line : document.errors()) err << line << "\n";
    if (!valid) continue;
    for (const std::string& line : document.notes()) err << line << "\n";
  }
  if (!valid) {
    err << "trainyard: nothing is printed: correct this first\n";
    return base::kExitUsage;
  }
  options.output == "json" ? PrintJson(documents, out) : PrintYaml(documents, *text, out);
  return base::kExitOk;
}

}  // namespace tfjob
