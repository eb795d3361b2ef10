#include "operator/kube/fake_apiserver.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "operator/kube/fake_path.h"

namespace kube {
namespace {

FakeResource ResourceOf(const FakeCall& call) { return {call.group_version, call.plural}; }
FakeResource ResourceOf(const Resource& resource) {
  return {std::string(resource.group_version), std::string(resource.plural)};
}

Response ToResponse(const FakeAnswer& answer, int retry_after_seconds = 0) {
  Response response{answer.code, answer.body.dump(), {{"content-type", "application/json"}}};
  if (retry_after_seconds > 0) response.headers["retry-after"] = absl::StrCat(retry_after_seconds);
  return response;
}

absl::Status Broken() { return absl::UnavailableError("fake API server: the connection broke"); }

std::string Line(const char* type, const Json& object) {
  return Json({{"type", type}, {"object", object}}).dump() + "\n";
}

// "" for a change that a watcher with this selector does not see.
std::string LineOf(const FakeChange& change, const std::string& ns, const std::string& selector) {
  const bool before = Selected(change.before, ns, selector);
  const bool after = Selected(change.after, ns, selector);
  if (after) return Line(before ? "MODIFIED" : "ADDED", change.after);
  if (!before) return "";
  Json last = change.after.is_null() ? change.before : change.after;
  return Line("DELETED", last);
}

// Calls on_data with `text` in pieces; false when it has enough.
bool Deliver(const std::string& text, size_t piece_bytes,
             const std::function<bool(std::string_view)>& on_data) {
  if (piece_bytes == 0) return on_data(text);
  for (size_t at = 0; at < text.size(); at += piece_bytes) {
    if (!on_data(std::string_view(text).substr(at, piece_bytes))) return false;
  }
  return true;
}

}  // namespace

struct FakeApiServer::WatchState {
  FakeResource resource;
  std::string ns, selector;
  int64_t version = 0;   // everything up to here is delivered
  bool initial = false;  // begins with what is there
  bool bookmarks_wanted = false;
  int closes = 0, cuts = 0, bookmarks = 0;  // as counted when last looked at
  absl::Time next_bookmark;
  bool stopped = false;
  bool expired = false;  // 410 was delivered
};

FakeApiServer::FakeApiServer(FakeApiServerOptions options)
    : options_(options), store_(options.store) {}

int FakeApiServer::LogCall(FakeCall call) {
  absl::MutexLock lock(&mutex_);
  call.number = ++requests_;
  calls_.push_back(std::move(call));
  return requests_;
}

void FakeApiServer::LogCode(int number, int code) {
  absl::MutexLock lock(&mutex_);
  for (auto it = calls_.rbegin(); it != calls_.rend(); ++it) {
    if (it->number == number) it->code = code;
    if (it->number <= number) return;
  }
}

absl::StatusOr<FakeFault> FakeApiServer::Fault(const FakeCall& call, const Request& request,
                                               std::stop_token stop) {
  std::function<FakeFault(const FakeCall&)> faults;
  {
    absl::MutexLock lock(&mutex_);
    faults = faults_;
  }
  FakeFault fault;
  if (faults) fault = faults(call);
  if (fault.delay > absl::ZeroDuration()) {
    absl::Mutex mutex;
    bool stopped = false;
    const std::stop_callback on_stop(stop, [&] {
      absl::MutexLock lock(&mutex);
      stopped = true;
    });
    absl::MutexLock lock(&mutex);
    mutex.AwaitWithTimeout(absl::Condition(&stopped), std::min(fault.delay, request.timeout));
    if (!stopped && fault.delay >= request.timeout) {
      return absl::DeadlineExceededError("fake API server: no answer in time");
    }
  }
  if (stop.stop_requested()) return absl::CancelledError("stopped");
  if (fault.cut_before) return Broken();
  return fault;
}

FakeAnswer FakeApiServer::Execute(const FakeCall& call, const Request& request) {
  const FakeResource resource = ResourceOf(call);
  const std::map<std::string, std::string> query = ParseFakeTarget(request)->query;
  if (call.body.is_discarded()) return FakeFailure(400, "BadRequest", "the body is no JSON");
  if (!call.subresource.empty() && call.subresource != "status") {
    return FakeFailure(404, "NotFound", "the server could not find the requested resource");
  }
  if (call.verb == "get") return store_.Get(resource, call.ns, call.name);
  if (call.verb == "create") return store_.Create(resource, call.ns, call.body);
  if (call.verb == "delete") return store_.Delete(resource, call.ns, call.name, call.body);
  if (call.verb == "patch") {
    return store_.Patch(resource, call.ns, call.name, call.subresource, request.content_type,
                        call.body);
  }
  const std::string selector = QueryText(query, "labelSelector");
  const std::string error = SelectorError(selector);
  if (!error.empty()) return FakeFailure(400, "BadRequest", error);
  if (call.verb == "deletecollection") {
    return store_.DeleteCollection(resource, call.ns, selector, call.body);
  }
  if (call.verb == "list") {
    int limit = 0;
    if (!absl::SimpleAtoi(QueryText(query, "limit"), &limit)) limit = 0;
    return store_.List(resource, call.ns, selector, limit, QueryText(query, "continue"));
  }
  return store_.Replace(resource, call.ns, call.name, call.subresource, call.body);
}

absl::StatusOr<Response> FakeApiServer::Handle(const Request& request, FakeCall call,
                                               std::stop_token stop) {
  ASSIGN_OR_RETURN(const FakeFault fault, Fault(call, request, stop));
  if (fault.code != 0) {
    LogCode(call.number, fault.code);
    return ToResponse(FakeFailure(fault.code, fault.reason, fault.message),
                      fault.retry_after_seconds);
  }
  FakeAnswer answer;
  {
    absl::MutexLock lock(&mutex_);
    try {
      answer = Execute(call, request);
    } catch (const Json::exception& error) {  // a field of another type than Kubernetes has it
      answer = FakeFailure(400, "BadRequest", error.what());
    }
  }
  if (fault.cut_after) return Broken();
  LogCode(call.number, answer.code);
  return ToResponse(answer);
}

absl::StatusOr<Response> FakeApiServer::Call(const Request& request, std::stop_token stop) {
  if (stop.stop_requested()) return absl::CancelledError("stopped");
  const std::optional<FakeTarget> target = ParseFakeTarget(request);
  if (!target || target->call.verb == "watch") {
    return ToResponse(FakeFailure(404, "NotFound", "the server could not find the resource"));
  }
  FakeCall call = target->call;
  call.number = LogCall(call);
  return Handle(request, std::move(call), stop);
}

absl::StatusOr<Response> FakeApiServer::Stream(const Request& request,
                                               const std::function<bool(std::string_view)>& on_data,
                                               std::stop_token stop) {
  if (stop.stop_requested()) return absl::CancelledError("stopped");
  const std::optional<FakeTarget> target = ParseFakeTarget(request);
  const bool is_log = target && target->call.subresource == "log" && target->call.verb == "get";
  if (!target || (target->call.verb != "watch" && !is_log)) {
    return ToResponse(FakeFailure(404, "NotFound", "the server could not find the resource"));
  }
  FakeCall call = target->call;
  call.number = LogCall(call);
  ASSIGN_OR_RETURN(const FakeFault fault, Fault(call, request, stop));
  if (fault.code != 0) {
    LogCode(call.number, fault.code);
    return ToResponse(FakeFailure(fault.code, fault.reason, fault.message),
                      fault.retry_after_seconds);
  }
  if (is_log) return logs_.Serve(call.ns, call.name, target->query, request, on_data, stop);
  LogCode(call.number, 200);
  return RunWatch(request, call, fault, on_data, stop);
}

bool FakeApiServer::HasNews(const WatchState& watch) const {
  if (watch.stopped || watch.initial || watch.closes != closes_ || watch.cuts != cuts_) return true;
  if (watch.bookmarks != bookmarks_) return true;
  const auto changes = store_.ChangesAfter(watch.resource, watch.version);
  return !changes || !changes->empty();
}

std::vector<std::string> FakeApiServer::NextLines(WatchState* watch) {
  std::vector<std::string> lines;
  if (std::exchange(watch->initial, false)) {
    for (const Json& object : store_.Objects(watch->resource, watch->ns)) {
      if (Selected(object, watch->ns, watch->selector)) lines.push_back(Line("ADDED", object));
    }
    watch->version = store_.version();
  }
  const auto changes = store_.ChangesAfter(watch->resource, watch->version);
  if (!changes) {
    watch->expired = true;
    lines.push_back(
        Line("ERROR",
             FakeFailure(410, "Expired", absl::StrCat("too old resource version: ", watch->version))
                 .body));
    return lines;
  }
  for (const FakeChange* change : *changes) {
    std::string line = LineOf(*change, watch->ns, watch->selector);
    if (!line.empty()) lines.push_back(std::move(line));
  }
  watch->version = std::max(watch->version, store_.version());
  const bool due = absl::Now() >= watch->next_bookmark;
  if (due) watch->next_bookmark = absl::Now() + options_.bookmark_interval;
  if ((due || watch->bookmarks != bookmarks_) && watch->bookmarks_wanted) {
    const Json metadata = {{"resourceVersion", absl::StrCat(watch->version)}};
    lines.push_back(Line("BOOKMARK", {{"kind", "Bookmark"}, {"metadata", metadata}}));
  }
  watch->bookmarks = bookmarks_;
  return lines;
}

absl::StatusOr<Response> FakeApiServer::RunWatch(
    const Request& request, const FakeCall& call, const FakeFault& fault,
    const std::function<bool(std::string_view)>& on_data, std::stop_token stop) {
  const std::map<std::string, std::string> query = ParseFakeTarget(request)->query;
  WatchState watch;
  watch.resource = ResourceOf(call);
  watch.ns = call.ns;
  watch.selector = QueryText(query, "labelSelector");
  watch.bookmarks_wanted = QueryText(query, "allowWatchBookmarks") == "true";
  watch.next_bookmark = absl::Now() + options_.bookmark_interval;
  if (!absl::SimpleAtoi(QueryText(query, "resourceVersion"), &watch.version)) watch.version = 0;
  watch.initial = watch.version == 0;
  int seconds = 0;
  absl::Time end = absl::InfiniteFuture();
  if (absl::SimpleAtoi(QueryText(query, "timeoutSeconds"), &seconds)) {
    end = absl::Now() + absl::Seconds(seconds);
  }
  {
    absl::MutexLock lock(&mutex_);
    ++watches_[call.plural];
    watch.closes = closes_;
    watch.cuts = cuts_;
    watch.bookmarks = bookmarks_;
  }
  const std::stop_callback on_stop(stop, [&] {
    absl::MutexLock lock(&mutex_);
    watch.stopped = true;
  });
  struct Closer {
    std::function<void()> close;
    ~Closer() { close(); }
  } const closer{[&] {
    absl::MutexLock lock(&mutex_);
    --watches_[call.plural];
  }};
  const Response ended{200, "", {}};
  int delivered = 0;
  for (;;) {
    std::vector<std::string> lines;
    {
      absl::MutexLock lock(&mutex_);
      const auto has_news = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return HasNews(watch); };
      const absl::Time idle_end = absl::Now() + request.timeout;
      const absl::Time wake = std::min({end, idle_end, watch.next_bookmark});
      if (fault.cut_watch_after != delivered) {
        mutex_.AwaitWithDeadline(absl::Condition(&has_news), wake);
      }
      if (watch.stopped) return absl::CancelledError("stopped");
      if (watch.cuts != cuts_ || fault.cut_watch_after == delivered) return Broken();
      lines = NextLines(&watch);
      const bool over = watch.closes != closes_ || absl::Now() >= end;
      if (lines.empty() && over) return ended;
      if (lines.empty() && absl::Now() >= idle_end) {
        return absl::DeadlineExceededError("fake API server: a silent watch");
      }
    }
    for (const std::string& line : lines) {
      if (!Deliver(line, options_.piece_bytes, on_data)) return ended;
      if (++delivered == fault.cut_watch_after) return Broken();
    }
    if (watch.expired) return ended;
  }
}

Json FakeApiServer::Put(const Resource& resource, Json object) {
  absl::MutexLock lock(&mutex_);
  return store_.Put(ResourceOf(resource), std::move(object));
}

Json FakeApiServer::SetStatus(const Resource& resource, const std::string& ns,
                              const std::string& name, Json status) {
  absl::MutexLock lock(&mutex_);
  FakeAnswer answer = store_.Get(ResourceOf(resource), ns, name);
  if (!answer.ok()) std::abort();  // a mistake of the test
  answer.body["status"] = std::move(status);
  return store_.Put(ResourceOf(resource), std::move(answer.body));
}

bool FakeApiServer::Remove(const Resource& resource, const std::string& ns,
                           const std::string& name) {
  absl::MutexLock lock(&mutex_);
  return store_.Remove(ResourceOf(resource), ns, name);
}

void FakeApiServer::FinishDeletions() {
  absl::MutexLock lock(&mutex_);
  store_.FinishDeletions();
}

void FakeApiServer::CollectGarbage() {
  absl::MutexLock lock(&mutex_);
  store_.CollectGarbage();
}

std::optional<Json> FakeApiServer::Find(const Resource& resource, const std::string& ns,
                                        const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  FakeAnswer answer = store_.Get(ResourceOf(resource), ns, name);
  if (!answer.ok()) return std::nullopt;
  return std::move(answer.body);
}

std::vector<Json> FakeApiServer::Objects(const Resource& resource, const std::string& ns) const {
  absl::MutexLock lock(&mutex_);
  return store_.Objects(ResourceOf(resource), ns);
}

void FakeApiServer::SetFaults(std::function<FakeFault(const FakeCall&)> faults) {
  absl::MutexLock lock(&mutex_);
  faults_ = std::move(faults);
}

void FakeApiServer::Compact() {
  absl::MutexLock lock(&mutex_);
  store_.Compact();
}

void FakeApiServer::CloseWatches() {
  absl::MutexLock lock(&mutex_);
  ++closes_;
}

void FakeApiServer::CutWatches() {
  absl::MutexLock lock(&mutex_);
  ++cuts_;
}

void FakeApiServer::SendBookmarks() {
  absl::MutexLock lock(&mutex_);
  ++bookmarks_;
}

std::vector<FakeCall> FakeApiServer::Calls() const {
  absl::MutexLock lock(&mutex_);
  return calls_;
}

int FakeApiServer::Count(const std::string& verb, const std::string& plural) const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(std::count_if(calls_.begin(), calls_.end(), [&](const FakeCall& call) {
    return call.verb == verb && call.plural == plural;
  }));
}

void FakeApiServer::ClearCalls() {
  absl::MutexLock lock(&mutex_);
  calls_.clear();
}

int FakeApiServer::watches() const {
  absl::MutexLock lock(&mutex_);
  int sum = 0;
  for (const auto& [plural, count] : watches_) sum += count;
  return sum;
}

bool FakeApiServer::WaitForWatches(const std::string& plural, int count,
                                   absl::Duration timeout) const {
  const auto reached = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const auto it = watches_.find(plural);
    return (it == watches_.end() ? 0 : it->second) == count;
  };
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&reached), timeout);
}

}  // namespace kube
