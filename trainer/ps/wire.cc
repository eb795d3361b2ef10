#include "trainer/ps/wire.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/exit_codes.h"

namespace trainer {
namespace {

template <typename Message>
base::Task TaskOf(const Message& message) {
  return {message.job(), message.index()};
}

template <typename Message>
void SetTask(const base::Task& task, uint64_t incarnation, Message* out) {
  out->set_job(task.job);
  out->set_index(task.index);
  out->set_incarnation(incarnation);
}

absl::Status CheckVariable(const Variable& variable, int64_t expected_offset) {
  int64_t elements = 1;
  for (const int64_t extent : variable.shape) {
    if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements)) elements = -1;
    if (elements < 0) break;
  }
  if (elements != variable.size || variable.offset != expected_offset) {
    return base::UsageError(absl::StrCat(
        "variable '", variable.name, "' has ", variable.size, " elements at offset ",
        variable.offset, ", but its shape and place say ", elements, " at ", expected_offset));
  }
  return absl::OkStatus();
}

std::string Describe(const Variable& variable) {
  return absl::StrCat(variable.name, " [", absl::StrJoin(variable.shape, ", "), "]");
}

}  // namespace

wire::Caller ToWire(const Caller& caller) {
  wire::Caller out;
  SetTask(caller.task, caller.incarnation, &out);
  return out;
}

Caller FromWire(const wire::Caller& caller) { return {TaskOf(caller), caller.incarnation()}; }

void ToWire(const Commit& commit, wire::Commit* out) {
  out->set_known(commit.known);
  for (const PushId& id : commit.pushes) {
    wire::PushId* const push = out->add_pushes();
    SetTask(id.task, id.incarnation, push);
    push->set_sequence(id.sequence);
  }
}

Commit FromWire(const wire::Commit& commit) {
  Commit out{.known = commit.known()};
  for (const wire::PushId& id : commit.pushes()) {
    out.pushes.push_back({TaskOf(id), id.incarnation(), id.sequence()});
  }
  return out;
}

void ToWire(const LeadView& lead, wire::LeadView* out) {
  out->set_incarnation(lead.incarnation);
  out->set_version(lead.version);
  ToWire(lead.commit, out->mutable_commit());
}

LeadView FromWire(const wire::LeadView& lead) {
  return {lead.incarnation(), lead.version(), FromWire(lead.commit())};
}

wire::JobConfig ToWire(const JobConfig& config, int shard, int shard_count) {
  wire::JobConfig out;
  for (const Variable& variable : config.variables) {
    wire::Variable* const v = out.add_variables();
    v->set_name(variable.name);
    v->mutable_shape()->Add(variable.shape.begin(), variable.shape.end());
    v->set_offset(variable.offset);
    v->set_size(variable.size);
  }
  out.set_placement(static_cast<int>(config.placement));
  out.set_optimizer(static_cast<int>(config.optimizer.kind));
  out.set_momentum(config.optimizer.momentum);
  out.set_beta1(config.optimizer.beta1);
  out.set_beta2(config.optimizer.beta2);
  out.set_epsilon(config.optimizer.epsilon);
  out.set_initial_accumulator_value(config.optimizer.initial_accumulator_value);
  out.set_learning_rate(config.schedule.rate);
  out.set_decay(config.schedule.decay);
  out.set_decay_steps(config.schedule.decay_steps);
  out.set_staircase(config.schedule.staircase);
  out.set_ema_decay(config.ema_decay);
  out.set_last_step(config.last_step);
  out.set_sync(config.sync);
  out.set_replicas_to_aggregate(config.replicas_to_aggregate);
  out.set_total_num_replicas(config.total_num_replicas);
  out.set_shard(shard);
  out.set_shard_count(shard_count);
  return out;
}

absl::StatusOr<JobConfig> FromWire(const wire::JobConfig& config) {
  JobConfig out;
  int64_t offset = 0;
  for (const wire::Variable& v : config.variables()) {
    Variable variable{.name = v.name(),
                      .shape = {v.shape().begin(), v.shape().end()},
                      .offset = v.offset(),
                      .size = v.size()};
    if (absl::Status status = CheckVariable(variable, offset); !status.ok()) return status;
    offset += variable.size;
    out.variables.push_back(std::move(variable));
  }
  if (config.placement() < 0 || config.placement() > static_cast<int>(Placement::kPartitioned) ||
      config.optimizer() < 0 || config.optimizer() > static_cast<int>(OptimizerKind::kAdagrad)) {
    return base::UsageError(
        "the chief asks for a placement or an optimizer that this parameter "
        "server does not know; run the same version everywhere");
  }
  out.placement = static_cast<Placement>(config.placement());
  out.optimizer = {.kind = static_cast<OptimizerKind>(config.optimizer()),
                   .momentum = config.momentum(),
                   .beta1 = config.beta1(),
                   .beta2 = config.beta2(),
                   .epsilon = config.epsilon(),
                   .initial_accumulator_value = config.initial_accumulator_value()};
  out.schedule = {.rate = config.learning_rate(),
                  .decay = config.decay(),
                  .decay_steps = config.decay_steps(),
                  .staircase = config.staircase()};
  out.ema_decay = config.ema_decay();
  out.last_step = config.last_step();
  out.sync = config.sync();
  out.replicas_to_aggregate = config.replicas_to_aggregate();
  out.total_num_replicas = config.total_num_replicas();
  return out;
}

absl::Status CheckSameLayout(const JobConfig& chief, const JobConfig& mine) {
  std::vector<std::string> differences;
  const size_t common = std::min(chief.variables.size(), mine.variables.size());
  for (size_t i = 0; i < common; ++i) {
    const std::string theirs = Describe(chief.variables[i]);
    const std::string ours = Describe(mine.variables[i]);
    if (theirs != ours) differences.push_back(absl::StrCat(ours, " where the chief has ", theirs));
  }
  for (size_t i = common; i < mine.variables.size(); ++i) {
    differences.push_back(absl::StrCat(Describe(mine.variables[i]), " that the chief lacks"));
  }
  for (size_t i = common; i < chief.variables.size(); ++i) {
    differences.push_back(absl::StrCat("no ", Describe(chief.variables[i])));
  }
  if (chief.placement != mine.placement) differences.push_back("another --placement");
  if (chief.sync != mine.sync) {
    differences.push_back(chief.sync ? "no --sync_replicas where the chief has it"
                                     : "--sync_replicas where the chief has it not");
  }
  if (differences.empty()) return absl::OkStatus();
  return base::UsageError(
      absl::StrCat("this task's job differs from the one that the chief started: ",
                   absl::StrJoin(differences, "; "), "; give all tasks the same flags"));
}

}  // namespace trainer
