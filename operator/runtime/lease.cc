#include "operator/runtime/lease.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "base/status_macros.h"

namespace runtime {
namespace {

using kube::Json;

// The number if it is there, or the fallback: people edit leases by hand.
int64_t NumberOr(const Json& object, const char* key, int64_t fallback) {
  const Json& field = base::At(object, key);
  return field.is_number_integer() ? field.get<int64_t>() : fallback;
}

Json SpecOf(const Json& object) {
  const Json& spec = base::At(object, "spec");
  return spec.is_object() ? spec : Json::object();
}

// Whole seconds are all that a lease can promise; more than meant does no harm.
int64_t LeaseSeconds(absl::Duration duration) {
  return std::max<int64_t>(1, absl::ToInt64Seconds(absl::Ceil(duration, absl::Seconds(1))));
}

}  // namespace

absl::Status LeaderOptions::Validate() const {
  std::string problems;
  const auto require = [&problems](bool good, const char* what) {
    if (!good) absl::StrAppend(&problems, problems.empty() ? "" : "\n", what);
  };
  require(!ns.empty(), "leader election: the lease's namespace is empty");
  require(!name.empty(), "leader election: the lease's name is empty");
  require(!identity.empty(), "leader election: the identity is empty");
  require(lease_duration >= absl::Seconds(1), "leader election: lease duration below 1 s");
  require(renew_deadline < lease_duration,
          "leader election: the renew deadline must be shorter than the lease duration, so that a "
          "leader stops before another takes over");
  require(retry_period > absl::ZeroDuration() && retry_period * 1.2 < renew_deadline,
          "leader election: the retry period must be above 0 and, with a fifth of jitter, shorter "
          "than the renew deadline");
  return problems.empty() ? absl::OkStatus() : absl::InvalidArgumentError(problems);
}

Lease::Lease(kube::Client* client, const LeaderOptions& options)
    : client_(*client), options_(options), duration_(options.lease_duration) {}

absl::Status Lease::TryAcquireOrRenew(const std::stop_token& stop) {
  if (object_ && IsOurs()) {
    const absl::Status renewed = WriteOurs();
    const bool was_changed = absl::IsAborted(renewed) || absl::IsNotFound(renewed);
    if (renewed.ok() || !was_changed) return renewed;
  }
  RETURN_IF_ERROR(Look(stop));
  if (options_.clock->Now() < taken_until()) {
    may_write_until_ = absl::InfinitePast();
    return absl::FailedPreconditionError(absl::StrCat("held by ", holder_));
  }
  return WriteOurs();
}

absl::Status Lease::Release() {
  if (std::exchange(may_write_until_, absl::InfinitePast()) == absl::InfinitePast()) {
    return absl::OkStatus();
  }
  absl::Status status;
  for (int tries = 0; tries < 2; ++tries) {
    if (!object_) RETURN_IF_ERROR(Look({}));
    if (!object_ || !IsOurs()) return absl::OkStatus();
    status = Write(GivenUp()).status();
    if (!absl::IsAborted(status)) break;
  }
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status Lease::Look(const std::stop_token& stop) {
  absl::StatusOr<Json> found = client_.Get(kube::kLeases, options_.ns, options_.name, stop);
  // What was seen of a deleted lease still counts: its holder does not know yet that it is gone.
  if (absl::IsNotFound(found.status())) {
    object_.reset();
    return absl::OkStatus();
  }
  if (!found.ok()) return found.status();
  Observe(*found);
  return absl::OkStatus();
}

absl::Status Lease::WriteOurs() {
  const absl::Time before = options_.clock->Now();
  RETURN_IF_ERROR(Write(Ours()).status());
  may_write_until_ = before + options_.renew_deadline;
  return absl::OkStatus();
}

absl::StatusOr<Json> Lease::Write(const Json& object) {
  absl::StatusOr<Json> written = object_ ? client_.Replace(kube::kLeases, options_.ns, object, {})
                                         : client_.Create(kube::kLeases, options_.ns, object, {});
  // Whatever was wrong: what the lease looks like now is not known.
  object_.reset();
  if (written.ok()) Observe(*written);
  return written;
}

void Lease::Observe(const Json& object) {
  if (!object.is_object()) return;
  object_ = object;
  Json spec = SpecOf(object);
  if (spec == spec_) return;
  spec_ = std::move(spec);
  observed_ = options_.clock->Now();
  holder_ = base::StringAt(spec_, "holderIdentity");
  const int64_t promised = NumberOr(spec_, "leaseDurationSeconds", 0);
  duration_ = promised > 0 ? absl::Seconds(promised) : options_.lease_duration;
}

absl::Time Lease::taken_until() const {
  return holder_.empty() || IsOurs() ? absl::InfinitePast() : observed_ + duration_;
}

std::string Lease::WallTime() const {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", options_.wall_clock->Now(), absl::UTCTimeZone());
}

Json Lease::Ours() const {
  const std::string now = WallTime();
  Json object = object_ ? *object_
                        : Json{{"apiVersion", "coordination.k8s.io/v1"},
                               {"kind", "Lease"},
                               {"metadata", {{"name", options_.name}, {"namespace", options_.ns}}}};
  Json spec = SpecOf(object);
  const int64_t transitions = NumberOr(spec, "leaseTransitions", 0);
  const bool is_renewal = object_ && IsOurs();
  if (!is_renewal || !base::At(spec, "acquireTime").is_string()) spec["acquireTime"] = now;
  spec["leaseTransitions"] = !object_ || is_renewal ? transitions : transitions + 1;
  spec["holderIdentity"] = options_.identity;
  spec["leaseDurationSeconds"] = LeaseSeconds(options_.lease_duration);
  spec["renewTime"] = now;
  object["spec"] = std::move(spec);
  return object;
}

Json Lease::GivenUp() const {
  const std::string now = WallTime();
  Json object = *object_;
  Json spec = SpecOf(object);
  spec["holderIdentity"] = "";
  spec["leaseDurationSeconds"] = 1;
  spec["acquireTime"] = now;
  spec["renewTime"] = now;
  object["spec"] = std::move(spec);
  return object;
}

}  // namespace runtime
