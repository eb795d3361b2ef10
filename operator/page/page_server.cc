#include "operator/page/page_server.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "operator/page/assets.h"
#include "operator/page/job_view.h"
#include "operator/runtime/http_endpoint.h"

namespace tfjob {
namespace {

using runtime::HttpAnswer;
using runtime::HttpRequest;

constexpr char kFlag[] = "--page-bind-address";
constexpr int kThreads = 4;  // and so many calls of the API server at once, at most
constexpr size_t kMostTokenBytes = 8 * 1024;
constexpr int kDefaultRows = 100;
constexpr int kMostRows = 500;
constexpr size_t kMostEvents = 100;

// What every answer says to the browser: nothing of others is loaded, nothing is kept, nobody
// frames it.
std::map<std::string, std::string> Guards() {
  return {{"Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
           "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"X-Frame-Options", "DENY"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cache-Control", "no-store"}};
}

std::string_view TypeOf(std::string_view path) {
  if (path.ends_with(".css")) return "text/css; charset=utf-8";
  if (path.ends_with(".js")) return "text/javascript; charset=utf-8";
  return "text/html; charset=utf-8";
}

int HttpCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    default:
      return 503;
  }
}

HttpAnswer JsonAnswer(int code, const Json& json) {
  return {.code = code,
          .body = json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace),
          .content_type = "application/json",
          .headers = Guards()};
}

HttpAnswer Answer(const absl::StatusOr<Json>& result) {
  if (result.ok()) return JsonAnswer(200, *result);
  const int code = HttpCodeOf(result.status());
  HttpAnswer answer = JsonAnswer(code, {{"error", std::string(result.status().message())}});
  if (code == 401) answer.headers.emplace("WWW-Authenticate", "Bearer");
  if (code == 429 || code == 503) answer.headers.emplace("Retry-After", "5");
  return answer;
}

// RFC 6750: b64token.
bool IsTokenCharacter(char c) {
  return absl::ascii_isalnum(c) || std::string_view("-._~+/=").find(c) != std::string_view::npos;
}

absl::StatusOr<std::string> TokenOf(const HttpRequest& request) {
  absl::string_view text = request.authorization;
  constexpr absl::string_view kScheme = "bearer ";
  if (text.empty()) return absl::UnauthenticatedError("a token is needed");
  if (!absl::EqualsIgnoreCase(text.substr(0, kScheme.size()), kScheme)) {
    return absl::UnauthenticatedError("Authorization must be: Bearer and a token");
  }
  text = absl::StripAsciiWhitespace(text.substr(kScheme.size()));
  if (text.empty() || text.size() > kMostTokenBytes ||
      !std::all_of(text.begin(), text.end(), IsTokenCharacter)) {
    return absl::UnauthenticatedError(
        "this is no token: it has characters that tokens do not have");
  }
  return std::string(text);
}

std::string Parameter(const HttpRequest& request, const std::string& name) {
  const auto it = request.parameters.find(name);
  return it == request.parameters.end() ? "" : it->second;
}

absl::StatusOr<int> NumberOf(const HttpRequest& request, const std::string& name, int otherwise,
                             int max) {
  const std::string text = Parameter(request, name);
  if (text.empty()) return otherwise;
  int number = 0;
  if (absl::SimpleAtoi(text, &number) && number >= 0 && number <= max) return number;
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be a whole number from 0 to ", max, ", not \"", text, "\""));
}

// A namespace or the name of an object, as the API server writes them.
absl::StatusOr<std::string> NameOf(const HttpRequest& request, const std::string& name) {
  std::string text = Parameter(request, name);
  const bool is_name =
      text.size() <= 253 && std::all_of(text.begin(), text.end(), [](char c) {
        return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-' || c == '.';
      });
  if (is_name && text != "." && text != "..") return text;
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no ", name));
}

// What is listed: those of one state, and those whose name has these letters.
struct Filter {
  std::string state;
  std::string name;
};

struct Found {
  std::vector<std::string> keys;      // in the order of the list
  std::map<std::string, int> states;  // of all jobs of the namespace, whatever the filter
};

Found Find(const JobCache& cache, const std::string& ns, const Filter& filter) {
  Found found;
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const auto& [key, conditions] : cache.Conditions(ns)) {
    const std::string_view state = StateOf(conditions);
    ++found.states[std::string(state)];
    if (!filter.state.empty() && filter.state != state) continue;
    if (!filter.name.empty() && !absl::StrContains(key, filter.name)) continue;
    ranked.emplace_back(RankOf(state), key);
  }
  std::sort(ranked.begin(), ranked.end());
  for (auto& [rank, key] : ranked) found.keys.push_back(std::move(key));
  return found;
}

class PageServerImpl : public PageServer {
 public:
  PageServerImpl(const Parts& parts, const PageOptions& options)
      : parts_(parts), options_(options), access_(parts.nobody, options.access) {
    for (const PageFile& file : PageFiles()) AddFile(file);
    endpoint_.Handle("/api/session", [](const HttpRequest& request) {
      return JsonAnswer(200, {{"hasToken", !request.authorization.empty()}});
    });
    AddData("/api/jobs", &PageServerImpl::Jobs);
    AddData("/api/job", &PageServerImpl::Job);
    AddData("/api/events", &PageServerImpl::Events);
  }

  // Else its threads might wait for the API server, and we for them.
  ~PageServerImpl() override { access_.Stop(); }

  absl::Status Listen(const runtime::ListenAddress& address) {
    RETURN_IF_ERROR(endpoint_.Bind(address, kFlag, options_.address));
    endpoint_.Serve();
    return absl::OkStatus();
  }

  int port() const override { return endpoint_.port(); }

 private:
  using Data = absl::StatusOr<Json> (PageServerImpl::*)(const std::string& token,
                                                        const HttpRequest& request);

  void AddFile(const PageFile& file) {
    const std::string path(file.path == "/index.html" ? "/" : file.path);
    endpoint_.Handle(path, [file](const HttpRequest&) {
      return HttpAnswer{.body = std::string(file.text),
                        .content_type = std::string(TypeOf(file.path)),
                        .headers = Guards()};
    });
  }

  void AddData(const std::string& path, Data data) {
    endpoint_.Handle(path, [this, data](const HttpRequest& request) {
      const absl::StatusOr<std::string> token = TokenOf(request);
      if (!token.ok()) return Answer(token.status());
      return Answer((this->*data)(*token, request));
    });
  }

  // Whether the caller may list TFJobs there, and this operator knows them.
  absl::Status MaySee(const std::string& token, const std::string& ns) {
    RETURN_IF_ERROR(access_.MayList(token, kube::kTfJobs, ns));
    const std::vector<std::string>& served = options_.namespaces;
    if (!ns.empty() && !served.empty() &&
        std::find(served.begin(), served.end(), ns) == served.end()) {
      return absl::NotFoundError(absl::StrCat("this operator does not serve namespace ", ns));
    }
    if (parts_.ready) {
      if (const absl::Status ready = parts_.ready(); !ready.ok()) {
        return absl::UnavailableError(
            absl::StrCat("the operator is still reading the cluster: ", ready.message()));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Json> Jobs(const std::string& token, const HttpRequest& request) {
    ASSIGN_OR_RETURN(const std::string ns, NameOf(request, "namespace"));
    ASSIGN_OR_RETURN(const int offset, NumberOf(request, "offset", 0, 1'000'000));
    ASSIGN_OR_RETURN(const int limit, NumberOf(request, "limit", kDefaultRows, kMostRows));
    RETURN_IF_ERROR(MaySee(token, ns));
    const Found found =
        Find(*parts_.cache, ns, {Parameter(request, "state"), Parameter(request, "name")});
    Json rows = Json::array();
    const size_t end =
        std::min(found.keys.size(), static_cast<size_t>(offset) + static_cast<size_t>(limit));
    for (size_t i = offset; i < end; ++i) {
      const std::optional<JobCache::Snapshot> snapshot = parts_.cache->Observe(found.keys[i]);
      if (snapshot) rows.push_back(JobRow(snapshot->observed.job));
    }
    return Json{
        {"now", base::TimeText(absl::Now())}, {"namespace", ns},  {"states", found.states},
        {"total", found.keys.size()},         {"offset", offset}, {"jobs", std::move(rows)}};
  }

  absl::StatusOr<JobCache::Snapshot> JobOf(const std::string& token, const HttpRequest& request) {
    ASSIGN_OR_RETURN(const std::string ns, NameOf(request, "namespace"));
    ASSIGN_OR_RETURN(const std::string name, NameOf(request, "name"));
    if (ns.empty() || name.empty()) {
      return absl::InvalidArgumentError("namespace and name are needed");
    }
    RETURN_IF_ERROR(MaySee(token, ns));
    std::optional<JobCache::Snapshot> snapshot = parts_.cache->Observe(absl::StrCat(ns, "/", name));
    if (snapshot) return *std::move(snapshot);
    return absl::NotFoundError(absl::StrCat("there is no TFJob ", name, " in namespace ", ns));
  }

  absl::StatusOr<Json> Job(const std::string& token, const HttpRequest& request) {
    ASSIGN_OR_RETURN(JobCache::Snapshot snapshot, JobOf(token, request));
    Observed& observed = snapshot.observed;
    observed.now = absl::Now();
    const ObjectMeta& meta = observed.job.metadata;
    const absl::Status pods = access_.MayList(token, kube::kPods, meta.namespace_name);
    const JobParts parts{.waits_for = MakePlan(observed, options_.plan).waits_for,
                         .curve = parts_.history->Points(
                             absl::StrCat(meta.namespace_name, "/", meta.name), meta.uid),
                         .pods_refused = std::string(pods.message())};
    Json out = JobDetail(observed, parts);
    out["now"] = base::TimeText(observed.now);
    return out;
  }

  // Those of the job, newest first, as the API server tells them to the caller.
  absl::StatusOr<Json> Events(const std::string& token, const HttpRequest& request) {
    ASSIGN_OR_RETURN(const JobCache::Snapshot snapshot, JobOf(token, request));
    const ObjectMeta& meta = snapshot.observed.job.metadata;
    const kube::ListOptions options{.field_selector =
                                        absl::StrCat("involvedObject.uid=", meta.uid)};
    ASSIGN_OR_RETURN(const Json items,
                     access_.List(token, kube::kEvents, meta.namespace_name, options));
    std::vector<Json> rows;
    for (const Json& item : items) rows.push_back(EventRow(item));
    std::stable_sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) {
      return a["last"].get_ref<const std::string&>() > b["last"].get_ref<const std::string&>();
    });
    if (rows.size() > kMostEvents) rows.resize(kMostEvents);
    return Json{{"now", base::TimeText(absl::Now())}, {"events", std::move(rows)}};
  }

  const Parts parts_;
  const PageOptions options_;
  Access access_;
  runtime::HttpEndpoint endpoint_{kThreads};  // last: its handlers use the others
};

}  // namespace

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Start(const Parts& parts,
                                                              const PageOptions& options) {
  ASSIGN_OR_RETURN(const auto address, runtime::ParseListenFlag(kFlag, options.address));
  if (!address) return nullptr;
  auto server = std::make_unique<PageServerImpl>(parts, options);
  RETURN_IF_ERROR(server->Listen(*address));
  return server;
}

}  // namespace tfjob
