#include "operator/kube/response.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "base/status_macros.h"
#include "base/str_cat.h"

namespace kube {
namespace {

constexpr char kRetryAfterPayload[] = "trainyard/retry-after-ms";
constexpr size_t kMaxQuotedBytes = 300;  // of a body that is no Status
constexpr int kMaxDepth = 200;

// --- What is taken out of a text before it is parsed. The server's objects are half managedFields;
// cutting them here is many times cheaper than reading them.

// Index behind the string that begins at `at`, or behind the text.
size_t EndOfString(std::string_view text, size_t at) {
  for (size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return text.size();
}

size_t SkipSpace(std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(" \t\r\n", at), text.size());
}

// Index behind the value that begins at `at`.
size_t EndOfValue(std::string_view text, size_t at) {
  int depth = 0;
  for (size_t i = at; i < text.size();) {
    const char c = text[i];
    if (c == '"') {
      i = EndOfString(text, i);
      if (depth == 0) return i;
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth <= 0) return depth < 0 ? i : i + 1;
    if (c == ',' && depth == 0) return i;
    ++i;
  }
  return text.size();
}

// Where the value of a key managedFields at `at`, with its comma, ends; `at` when it is no such
// key.
size_t EndOfManagedFields(std::string_view text, size_t at, size_t end_of_string) {
  if (text.substr(at, end_of_string - at) != "\"managedFields\"") return at;
  const size_t colon = SkipSpace(text, end_of_string);
  if (colon == text.size() || text[colon] != ':') return at;
  const size_t end = SkipSpace(text, EndOfValue(text, SkipSpace(text, colon + 1)));
  return end < text.size() && text[end] == ',' ? end + 1 : end;
}

// Removes managedFields from `text`, in place; false where it is nested too deep for the recursion
// of those who read it.
bool Tidy(std::string& text) {
  size_t to = 0;
  int depth = 0;
  const auto keep = [&](size_t from, size_t end) {
    if (to != from) std::memmove(&text[to], &text[from], end - from);
    to += end - from;
  };
  for (size_t at = 0; at < text.size();) {
    const size_t next = std::min(text.find_first_of("\"{}[]", at), text.size());
    keep(at, next);
    at = next;
    if (at == text.size()) break;
    if (text[at] != '"') {
      depth += text[at] == '{' || text[at] == '[' ? 1 : -1;
      if (depth > kMaxDepth) return false;
      keep(at, at + 1);
      ++at;
      continue;
    }
    const size_t end = EndOfString(text, at);
    const size_t behind = EndOfManagedFields(text, at, end);
    if (behind == at) {
      keep(at, end);
      at = end;
      continue;
    }
    // The last key of its map leaves the comma before it.
    const bool last = behind < text.size() && text[behind] == '}';
    const size_t before = std::string_view(text).substr(0, to).find_last_not_of(" \t\r\n");
    if (last && before != std::string_view::npos && text[before] == ',') to = before;
    at = behind;
  }
  text.resize(to);
  return true;
}

Json Parse(std::string text, bool* too_deep) {
  *too_deep = !Tidy(text);
  if (*too_deep) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

int IntField(const Json& object, const char* key) {
  const Json& field = base::At(object, key);
  if (!field.is_number_integer()) return 0;
  return static_cast<int>(std::clamp<int64_t>(field.get<int64_t>(), 0, 1'000'000));
}

absl::StatusCode CodeOf(int http, const std::string& reason) {
  switch (http) {
    case 400:
    case 422:
      return absl::StatusCode::kInvalidArgument;
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return absl::StatusCode::kNotFound;
    case 409:
      return reason == "AlreadyExists" ? absl::StatusCode::kAlreadyExists
                                       : absl::StatusCode::kAborted;
    case 410:
      return absl::StatusCode::kOutOfRange;
    case 429:
      return absl::StatusCode::kResourceExhausted;
    case 500:
    case 502:
    case 503:
    case 504:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

absl::Status MakeStatus(std::string_view what, int http, const std::string& reason,
                        const std::string& message) {
  const std::string label =
      reason.empty() ? absl::StrCat("HTTP ", http) : absl::StrCat("HTTP ", http, " ", reason);
  return {CodeOf(http, reason), base::StrCat(what, ": ", message, " (", label, ")")};
}

// The text of an answer that is no Status object, cut to what fits a log line.
std::string Quoted(const std::string& body) {
  if (body.empty()) return "the answer is empty";
  std::string text = body.substr(0, kMaxQuotedBytes);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return absl::StrCat("the server answered: ", text, body.size() > kMaxQuotedBytes ? "…" : "");
}

void NoteRetryDetail(const Json& body, absl::Status* status) {
  const int seconds = IntField(base::At(body, "details"), "retryAfterSeconds");
  if (seconds > 0) SetRetryAfter(status, absl::Seconds(seconds));
}

}  // namespace

absl::StatusOr<Json> ParseObject(std::string body) {
  const std::string beginning = body.substr(0, kMaxQuotedBytes + 1);
  bool too_deep = false;
  Json json = Parse(std::move(body), &too_deep);
  if (too_deep) return absl::InternalError("the answer is nested too deep");
  if (json.is_discarded()) {
    return absl::InternalError(base::StrCat("the answer is no JSON: ", Quoted(beginning)));
  }
  return json;
}

absl::Status StatusOf(std::string_view what, const Json& status) {
  const std::string message = base::StringAt(status, "message");
  absl::Status out = MakeStatus(what, IntField(status, "code"), base::StringAt(status, "reason"),
                                message.empty() ? "the server gave no reason" : message);
  NoteRetryDetail(status, &out);
  return out;
}

absl::Status StatusOf(std::string_view what, const Response& response) {
  if (response.code >= 200 && response.code < 300) return absl::OkStatus();
  bool too_deep = false;
  const Json body = Parse(response.body, &too_deep);
  const std::string message = base::StringAt(body, "message");
  absl::Status status = MakeStatus(what, response.code, base::StringAt(body, "reason"),
                                   message.empty() ? Quoted(response.body) : message);
  NoteRetryDetail(body, &status);
  const auto header = response.headers.find("retry-after");
  int64_t seconds = 0;  // the other form, a date, is not sent by API servers
  if (header != response.headers.end() && absl::SimpleAtoi(header->second, &seconds) &&
      seconds >= 0) {
    SetRetryAfter(&status, absl::Seconds(std::min<int64_t>(seconds, 1'000'000)));
  }
  return status;
}

void SetRetryAfter(absl::Status* status, absl::Duration after) {
  // A view, as clang and g++ name the constructor from a string differently.
  const std::string text = absl::StrCat(absl::ToInt64Milliseconds(after));
  status->SetPayload(kRetryAfterPayload, absl::Cord(absl::string_view(text)));
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryAfterPayload);
  int64_t ms = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &ms)) return std::nullopt;
  return absl::Milliseconds(ms);
}

absl::StatusOr<ListPage> ParseList(std::string body) {
  ASSIGN_OR_RETURN(Json json, ParseObject(std::move(body)));
  const auto items = json.is_object() ? json.find("items") : json.end();
  if (!json.is_object() || items == json.end() || !(items->is_array() || items->is_null())) {
    return absl::InternalError("the answer is no list: it has no items");
  }
  ListPage page;
  if (items->is_array()) page.items = std::move(*items);
  const Json& metadata = base::At(json, "metadata");
  page.resource_version = base::StringAt(metadata, "resourceVersion");
  page.continue_token = base::StringAt(metadata, "continue");
  return page;
}

namespace {

absl::Status HandleLine(std::string_view line, const std::function<bool(WatchEvent&)>& on_event) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return absl::OkStatus();
  ASSIGN_OR_RETURN(Json json, ParseObject(std::string(line)));
  WatchEvent event;
  event.type = base::StringAt(json, "type");
  const auto object = json.is_object() ? json.find("object") : json.end();
  if (event.type.empty() || !json.is_object() || object == json.end()) {
    return absl::InternalError(
        absl::StrCat("a line of the watch is no event: ", Quoted(std::string(line))));
  }
  event.object = std::move(*object);
  if (event.type == "ERROR") return StatusOf("watch", event.object);
  if (!on_event(event)) return absl::CancelledError("the watcher ended the watch");
  return absl::OkStatus();
}

}  // namespace

absl::Status WatchSplitter::Add(std::string_view piece,
                                const std::function<bool(WatchEvent&)>& on_event) {
  while (!piece.empty()) {
    const size_t end = piece.find('\n');
    const size_t length = std::min(end, piece.size());
    if (rest_.size() + length > kMaxLineBytes) {
      return absl::InternalError(
          absl::StrCat("a line of the watch is longer than ", kMaxLineBytes, " bytes"));
    }
    if (end == std::string_view::npos) {
      rest_.append(piece);
      return absl::OkStatus();
    }
    absl::Status status;
    if (rest_.empty()) {
      status = HandleLine(piece.substr(0, end), on_event);
    } else {
      rest_.append(piece.substr(0, end));
      const std::string line = std::exchange(rest_, std::string());
      status = HandleLine(line, on_event);
    }
    RETURN_IF_ERROR(status);
    piece.remove_prefix(end + 1);
  }
  return absl::OkStatus();
}

}  // namespace kube
