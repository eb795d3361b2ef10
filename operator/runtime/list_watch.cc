#include "operator/runtime/list_watch.h"

#include <algorithm>
#include <exception>

#include "base/json_read.h"
#include "base/log.h"
#include "base/str_cat.h"
#include "operator/kube/request.h"

namespace runtime {
namespace {

// A watch that ends in good order sooner than this, and empty, is no watch: some proxies do so.
constexpr absl::Duration kShortestWatch = absl::Seconds(1);
// A watch that held so long shows that the server is well, although nothing happened.
constexpr absl::Duration kLongWatch = absl::Seconds(10);
// The server ends watches after this to twice this, so that they are not all renewed at once.
constexpr absl::Duration kShortestTimeout = absl::Minutes(5);
// Then the continue token or the resourceVersion is given up, whatever the error says.
constexpr int kMostFailures = 5;

}  // namespace

std::string AdviceFor(const absl::Status& status, const WatcherOptions& options) {
  const std::string_view group = kube::GroupOf(options.resource);
  switch (status.code()) {
    case absl::StatusCode::kUnauthenticated:
      return "the API server does not accept the credentials: check the kubeconfig, or that the "
             "service account and its mounted token still exist";
    case absl::StatusCode::kPermissionDenied:
      return base::StrCat("RBAC: bind this process's service account to a ",
                          options.ns.empty() ? "ClusterRole (by a ClusterRoleBinding)"
                                             : base::StrCat("Role in namespace ", options.ns),
                          " that has the rule {apiGroups: [\"", group, "\"], resources: [\"",
                          options.resource.plural, "\"], verbs: [\"list\", \"watch\"]}");
    case absl::StatusCode::kNotFound:
      return group.empty() ? ""
                           : base::StrCat("is the CustomResourceDefinition ",
                                          options.resource.plural, ".", group, " installed?");
    default:
      return "";
  }
}

ListWatch::ListWatch(kube::Client* client, const WatcherOptions& options, WatchSink* sink)
    : client_(*client),
      options_(options),
      sink_(*sink),
      jitter_(options.seed),
      throttle_(options.clock) {}

ListWatch::Pause ListWatch::Step(const std::stop_token& stop) {
  return state_ == State::kListing ? ListOnePage(stop) : WatchOnce(stop);
}

ListWatch::Pause ListWatch::ListOnePage(const std::stop_token& stop) {
  kube::ListOptions list;
  list.label_selector = options_.label_selector;
  list.limit = options_.page_size;
  list.continue_token = continue_token_;
  absl::StatusOr<kube::ListPage> page = client_.List(options_.resource, options_.ns, list, stop);
  if (stop.stop_requested()) return {};
  if (!page.ok()) return AfterFailedPage(page.status());
  failed_pages_ = 0;
  if (continue_token_.empty()) Contain({}, [this] { sink_.OnListBegin(); });
  for (kube::Json& object : page->items) {
    Contain(object, [&] { sink_.OnObject(object); });
    object = nullptr;  // its memory is free as soon as it is handed on
  }
  continue_token_ = page->continue_token;
  if (!continue_token_.empty()) return {};
  Contain({}, [this] { sink_.OnListEnd(); });
  resource_version_ = page->resource_version;
  failed_watches_ = 0;
  state_ = State::kWatching;
  ++lists_;
  return {};
}

ListWatch::Pause ListWatch::AfterFailedPage(const absl::Status& status) {
  const bool is_first_page = continue_token_.empty();
  // 410: the server has forgotten the state that the pages before were of.
  const bool has_expired = absl::IsOutOfRange(status);
  if (has_expired || absl::IsInvalidArgument(status) || ++failed_pages_ >= kMostFailures) {
    StartOver();
  }
  if (has_expired && !is_first_page && ++expired_ == 1) return {};
  return Fail(status);
}

ListWatch::Pause ListWatch::WatchOnce(const std::stop_token& stop) {
  kube::WatchOptions watch;
  watch.label_selector = options_.label_selector;
  watch.resource_version = resource_version_;
  watch.timeout = kShortestTimeout * (1.0 + jitter_.Next());
  const absl::Time begin = options_.clock->Now();
  bool was_alive = false;
  const auto on_event = [&](kube::WatchEvent& event) {
    was_alive = true;
    OnAlive();
    OnEvent(event);
    return !stop.stop_requested();
  };
  const absl::Status status = client_.Watch(options_.resource, options_.ns, watch, on_event, stop);
  if (stop.stop_requested()) return {};
  ++restarts_;
  const absl::Duration lasted = options_.clock->Now() - begin;
  if (lasted >= kLongWatch) failures_ = 0;
  if (!status.ok()) return AfterFailedWatch(status);
  if (was_alive) return {};
  if (lasted < kShortestWatch) {
    return AfterFailedWatch(
        absl::UnavailableError("the server (or a proxy) ended the watch as soon as it began"));
  }
  OnAlive();
  return {};
}

ListWatch::Pause ListWatch::AfterFailedWatch(const absl::Status& status) {
  if (absl::IsOutOfRange(status)) {
    StartOver();
    return ++expired_ == 1 ? Pause{} : Fail(status);
  }
  // An error that stays may be about the resourceVersion: one of before the server's data were
  // restored from a backup, say.
  if (absl::IsInvalidArgument(status) || ++failed_watches_ >= kMostFailures) StartOver();
  return Fail(status);
}

void ListWatch::OnEvent(kube::WatchEvent& event) {
  const std::string version = base::StringAt(base::At(event.object, "metadata"), "resourceVersion");
  if (event.type == "ADDED" || event.type == "MODIFIED") {
    Contain(event.object, [&] { sink_.OnObject(event.object); });
  } else if (event.type == "DELETED") {
    Contain(event.object, [&] { sink_.OnDeleted(event.object); });
  } else if (event.type != "BOOKMARK") {
    base::LogWarning(
        "watch event of an unknown type",
        {{"resource", base::AbslView(options_.resource.plural)}, {"type", event.type}});
  }
  if (!version.empty()) resource_version_ = version;
}

void ListWatch::OnAlive() {
  failures_ = 0;
  failed_watches_ = 0;
  expired_ = 0;
  if (!in_trouble_) return;
  in_trouble_ = false;
  base::LogInfo("watching again", {{"resource", base::AbslView(options_.resource.plural)}});
}

void ListWatch::StartOver() {
  continue_token_.clear();
  failed_pages_ = 0;
  state_ = State::kListing;
}

ListWatch::Pause ListWatch::Fail(const absl::Status& status) {
  ++failures_;
  const absl::Duration backoff =
      BackoffDelay(options_.first_retry, options_.max_retry, failures_, jitter_.Next());
  const Pause pause{std::max(backoff, kube::RetryAfter(status).value_or(absl::ZeroDuration())),
                    std::string(status.message())};
  // A code is a cause; messages differ in ports and times.
  if (!throttle_.Allows(absl::StatusCodeToString(status.code()))) return pause;
  in_trouble_ = true;
  const std::string advice = AdviceFor(status, options_);
  base::LogWarning(
      "cannot follow a resource",
      {{"resource", base::AbslView(options_.resource.plural)},
       {"err", advice.empty() ? status.ToString() : base::StrCat(status.ToString(), ". ", advice)},
       {"failures", failures_},
       {"retry_in", absl::FormatDuration(absl::Trunc(pause.time, absl::Milliseconds(1)))}});
  return pause;
}

// One object that the sink cannot digest must not keep all others from it.
template <typename Call>
void ListWatch::Contain(const kube::Json& object, const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    // The object may have been taken apart: its name may be gone.
    base::LogError("defect: exception over a watched object",
                   {{"resource", base::AbslView(options_.resource.plural)},
                    {"namespace", base::StringAt(base::At(object, "metadata"), "namespace")},
                    {"name", base::StringAt(base::At(object, "metadata"), "name")},
                    {"err", error.what()}});
  }
}

}  // namespace runtime
