// Values to protobuf and back. PURE.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/ps/job_config.h"
#include "trainer/ps/param_server.pb.h"
#include "trainer/ps/store.h"

namespace trainer {

wire::Caller ToWire(const Caller& caller);
Caller FromWire(const wire::Caller& caller);

void ToWire(const Commit& commit, wire::Commit* out);
Commit FromWire(const wire::Commit& commit);

void ToWire(const LeadView& lead, wire::LeadView* out);
LeadView FromWire(const wire::LeadView& lead);

// `shard`, `shard_count`: of the receiver.
wire::JobConfig ToWire(const JobConfig& config, int shard, int shard_count);
// kInvalidArgument: variables that overlap or leave gaps, an unknown enum value.
absl::StatusOr<JobConfig> FromWire(const wire::JobConfig& config);

// kInvalidArgument listing how a worker's idea of the job differs from the chief's in what they
// must share: variables, placement and mode. The rest is the chief's to say.
absl::Status CheckSameLayout(const JobConfig& chief, const JobConfig& mine);

inline ElementType FromWire(wire::ElementType type) {
  return type == wire::BF16 ? ElementType::kBf16 : ElementType::kF32;
}
inline wire::ElementType ToWire(ElementType type) {
  return type == ElementType::kBf16 ? wire::BF16 : wire::F32;
}

}  // namespace trainer
