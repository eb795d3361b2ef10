#include "trainer/ps/exchange_handler.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "trainer/ps/wire.h"

namespace trainer {
namespace {

PushId IdOf(const wire::ExchangeRequest& request) {
  const Caller caller = FromWire(request.caller());
  return {caller.task, caller.incarnation, request.sequence()};
}

std::optional<LeadView> LeadOf(const wire::ExchangeRequest& request) {
  if (!request.has_lead()) return std::nullopt;
  return FromWire(request.lead());
}

void Answer(ExchangeDone& done, wire::ElementType element_type, absl::StatusOr<StoreReply> result) {
  wire::ExchangeReply reply;
  if (!result.ok()) return done(result.status(), std::move(reply), nullptr);
  reply.set_version(result->version);
  reply.set_dropped(result->dropped);
  reply.set_finished(result->finished);
  reply.set_staleness(result->staleness);
  reply.set_element_type(element_type);
  if (result->commit.known) ToWire(result->commit, reply.mutable_commit());
  done(absl::OkStatus(), std::move(reply), std::move(result->values));
}

}  // namespace

absl::Status ExchangeHandler::CheckIncarnation(uint64_t expected) const {
  if (expected == 0 || expected == incarnation_) return absl::OkStatus();
  return base::ClusterError("was restarted");
}

absl::Status ExchangeHandler::Check(const wire::ExchangeRequest& request) const {
  RETURN_IF_ERROR(CheckIncarnation(request.server_incarnation()));
  if (request.shard() != shard_) {
    return base::UsageError(absl::StrCat("is ps task ", shard_,
                                         ", but the caller takes it for task ", request.shard(),
                                         "; list the ps addresses in the same order everywhere"));
  }
  if (request.caller().job().empty()) return base::UsageError("got a call that names no caller");
  return absl::OkStatus();
}

void ExchangeHandler::Handle(const wire::ExchangeRequest& request, const TensorSource& payload,
                             ExchangeDone done) {
  const wire::ElementType type = request.reply_element_type();
  if (absl::Status status = Check(request); !status.ok()) {
    return done(std::move(status), {}, nullptr);
  }
  const absl::Time now = clock_->Now();
  const Caller caller = FromWire(request.caller());
  const Push push{IdOf(request), request.base_step()};
  switch (request.operation()) {
    case wire::PULL:
      return Answer(done, type, store_->Pull(caller, LeadOf(request), now));
    case wire::PUSH:
      return store_->PushGradient(push, payload, now,
                                  [done = std::move(done), type](auto result) mutable {
                                    Answer(done, type, std::move(result));
                                  });
    case wire::STAGE:
      return Answer(done, type, store_->StageGradient(push, payload, now));
    case wire::AVERAGES:
      return Answer(done, type, store_->PullAverages(caller, now));
    case wire::INITIALIZE: {
      absl::Status status = store_->Initialize(payload, request.base_step(), now);
      if (!status.ok()) return done(std::move(status), {}, nullptr);
      return Answer(done, type, StoreReply{.version = request.base_step()});
    }
    default:
      return done(base::UsageError(absl::StrCat("got the unknown operation ",
                                                static_cast<int>(request.operation()),
                                                "; run the same version everywhere")),
                  {}, nullptr);
  }
}

void ExchangeHandler::Cancel(const wire::ExchangeRequest& request) {
  if (request.operation() == wire::PUSH) store_->CancelWait(IdOf(request));
}

}  // namespace trainer
