#include "operator/cli/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "operator/cli/yaml_scalar.h"

namespace tfjob {
namespace {

constexpr size_t kTextBytesPerNode = 64;  // so that the node limit bounds the text of aliases too

// Ends the parse; caught where the parser is called.
struct Refused : std::runtime_error {
  Refused(int at, const std::string& what) : std::runtime_error(what), line(at) {}
  int line;
};

int LineOfMark(const YAML::Mark& mark) { return mark.line + 1; }

// Builds JSON from the parser's events, so that depth and size are checked before memory is spent.
class Builder : public YAML::EventHandler {
 public:
  Builder(std::string_view file, const ManifestLimits& limits) : file_(file), limits_(limits) {}

  std::vector<Manifest> Take() && { return std::move(documents_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    current_ = Manifest{.file = file_, .line = LineOfMark(mark)};
    anchors_.clear();
    frames_.clear();
    has_line_ = false;
  }
  void OnDocumentEnd() override {
    if (!current_.json.is_null()) documents_.push_back(std::move(current_));
  }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Add(mark, anchor, Json(nullptr), 1);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto it = anchors_.find(anchor);
    if (it == anchors_.end())
      throw Refused(LineOfMark(mark), "an alias stands inside its own anchor");
    Spend(mark, it->second.cost);
    if (static_cast<int>(frames_.size()) + it->second.depth > limits_.max_depth) TooDeep(mark);
    if (!frames_.empty()) {
      frames_.back().depth = std::max(frames_.back().depth, it->second.depth + 1);
    }
    Place(mark, it->second.value);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const size_t cost = 1 + value.size() / kTextBytesPerNode;
    if (frames_.empty() || frames_.back().is_list || frames_.back().has_key) {
      Add(mark, anchor, ScalarValue(mark, tag, value), cost);
      return;
    }
    Spend(mark, cost);
    SetKey(mark, tag, value);
    if (anchor != 0) anchors_[anchor] = {Json(value), cost, 0};
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, anchor, /*is_list=*/true);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, anchor, /*is_list=*/false);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct Frame {
    Json value;
    bool is_list = false;
    YAML::anchor_t anchor = 0;
    size_t cost_before = 0;
    int depth = 1;  // levels of containers in value, itself included
    YAML::Mark mark;
    std::string path;  // normalised, of this container
    bool has_key = false;
    bool merge = false;  // the key is <<
    std::string key;
    Json merged = Json::object();  // fields that << brings in; own fields win
  };
  struct Anchored {
    Json value;
    size_t cost = 0;
    int depth = 0;
  };

  [[noreturn]] void TooDeep(const YAML::Mark& mark) const {
    throw Refused(LineOfMark(mark),
                  absl::StrCat("nested deeper than ", limits_.max_depth, " levels"));
  }

  void Spend(const YAML::Mark& mark, size_t cost) {
    spent_ += cost;
    if (spent_ <= limits_.max_nodes) return;
    throw Refused(LineOfMark(mark),
                  absl::StrCat("more than ", limits_.max_nodes, " values, aliases expanded"));
  }

  Json ScalarValue(const YAML::Mark& mark, const std::string& tag, const std::string& text) const {
    const bool plain = tag.empty() || tag == "?";
    const bool core_type = tag == "tag:yaml.org,2002:int" || tag == "tag:yaml.org,2002:float" ||
                           tag == "tag:yaml.org,2002:bool" || tag == "tag:yaml.org,2002:null";
    if (!plain && !core_type) return Json(text);
    std::optional<Json> value = ResolveScalar(text);
    if (!value) throw Refused(LineOfMark(mark), text + " is no value that JSON has");
    return *std::move(value);
  }

  // Keys are text in JSON: 1 becomes "1", yes becomes "true".
  void SetKey(const YAML::Mark& mark, const std::string& tag, const std::string& text) {
    Frame& frame = frames_.back();
    frame.merge = text == "<<" && (tag.empty() || tag == "?");
    const Json value = ScalarValue(mark, tag, text);
    frame.key = value.is_string() ? text : value.dump();
    frame.has_key = true;
    if (frame.merge) return;
    if (frame.value.contains(frame.key)) {
      throw Refused(LineOfMark(mark), absl::StrCat("the key \"", frame.key, "\" is given twice"));
    }
    current_.lines.emplace(PathHere(), LineOfMark(mark));
  }

  // The normalised path of the value that comes next.
  std::string PathHere() const {
    if (frames_.empty()) return "";
    const Frame& frame = frames_.back();
    const std::string last =
        frame.is_list ? std::to_string(frame.value.size()) : NormalPath(frame.key);
    return frame.path.empty() ? last : absl::StrCat(frame.path, ".", last);
  }

  void Add(const YAML::Mark& mark, YAML::anchor_t anchor, Json value, size_t cost) {
    Spend(mark, cost);
    if (anchor != 0) anchors_[anchor] = {value, cost, 0};
    Place(mark, std::move(value));
  }

  // Puts a whole value where the parse stands.
  void Place(const YAML::Mark& mark, Json value) {
    if (frames_.empty()) {
      NoteFirstLine(mark);
      current_.json = std::move(value);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.is_list) {
      current_.lines.emplace(PathHere(), LineOfMark(mark));
      frame.value.push_back(std::move(value));
      return;
    }
    if (!frame.has_key) {  // an alias as key
      if (!value.is_string()) throw Refused(LineOfMark(mark), "a key must be text");
      SetKey(mark, "!", value.get<std::string>());
      return;
    }
    frame.has_key = false;
    if (frame.merge) {
      Merge(mark, frame, value);
    } else {
      frame.value[frame.key] = std::move(value);
    }
  }

  static void Merge(const YAML::Mark& mark, Frame& frame, const Json& value) {
    if (value.is_array()) {
      for (const Json& entry : value) Merge(mark, frame, entry);
      return;
    }
    if (!value.is_object()) throw Refused(LineOfMark(mark), "<< needs a map or a list of maps");
    for (const auto& [key, field] : value.items()) frame.merged.emplace(key, field);
  }

  void NoteFirstLine(const YAML::Mark& mark) {
    if (!std::exchange(has_line_, true)) current_.line = LineOfMark(mark);
  }

  void Open(const YAML::Mark& mark, YAML::anchor_t anchor, bool is_list) {
    NoteFirstLine(mark);
    if (static_cast<int>(frames_.size()) >= limits_.max_depth) TooDeep(mark);
    if (!frames_.empty() && !frames_.back().is_list && !frames_.back().has_key) {
      throw Refused(LineOfMark(mark), "a key must be text, not a map or list");
    }
    Frame frame{.value = is_list ? Json::array() : Json::object(),
                .is_list = is_list,
                .anchor = anchor,
                .cost_before = spent_,
                .mark = mark,
                .path = PathHere()};
    Spend(mark, 1);
    if (!frames_.empty() && frames_.back().is_list) {
      current_.lines.emplace(frame.path, LineOfMark(mark));
    }
    frames_.push_back(std::move(frame));
  }

  void Close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    for (auto& [key, field] : frame.merged.items()) frame.value.emplace(key, field);
    if (frame.anchor != 0) {
      anchors_[frame.anchor] = {frame.value, spent_ - frame.cost_before, frame.depth};
    }
    if (!frames_.empty()) frames_.back().depth = std::max(frames_.back().depth, frame.depth + 1);
    Place(frame.mark, std::move(frame.value));
  }

  const std::string file_;
  const ManifestLimits limits_;
  std::vector<Manifest> documents_;
  Manifest current_;
  bool has_line_ = false;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  size_t spent_ = 0;
};

// Length of the UTF-8 sequence at `text`, 0 when there is none (overlong forms and surrogates too).
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return lead == 0 ? 0 : 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F)) return 0;
  if ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) return 0;
  return length;
}

absl::Status At(std::string_view file, int line, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(file), ":", line, ": ", what));
}

absl::Status CheckText(std::string_view file, std::string_view text) {
  int line = 1;
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text.substr(i));
    if (length == 0) return At(file, line, "not a text file: a byte that is not UTF-8");
    if (text[i] == '\n') ++line;
    i += length;
  }
  return absl::OkStatus();
}

}  // namespace

std::string NormalPath(std::string_view path) {
  std::string out;
  for (const char c : path) {
    if (c == ']') continue;
    out.push_back(c == '[' ? '.' : c);
  }
  return out;
}

absl::StatusOr<std::vector<Manifest>> ReadYaml(std::string_view file, std::string_view yaml,
                                               const ManifestLimits& limits) {
  if (yaml.size() > limits.max_bytes) {
    return At(file, 1, absl::StrCat("larger than ", limits.max_bytes, " bytes"));
  }
  RETURN_IF_ERROR(CheckText(file, yaml));
  Builder builder(file, limits);
  try {
    std::istringstream stream{std::string(yaml)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refused& refused) {
    return At(file, refused.line, refused.what());
  } catch (const YAML::Exception& error) {
    return At(file, LineOfMark(error.mark), absl::StrCat("not valid YAML: ", error.msg));
  } catch (const std::exception& error) {
    return At(file, 1, absl::StrCat("not valid YAML: ", error.what()));
  }
  return std::move(builder).Take();
}

}  // namespace tfjob
