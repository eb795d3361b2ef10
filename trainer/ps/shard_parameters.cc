#include "trainer/ps/shard_parameters.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"

namespace trainer {
namespace {

constexpr char kAverageSuffix[] = "/ExponentialMovingAverage";

}  // namespace

ShardParameters::ShardParameters(JobConfig config, Shard shard)
    : config_(std::move(config)),
      shard_(std::move(shard)),
      slot_names_(SlotNames(config_.optimizer.kind)),
      pool_(shard_.size) {
  for (size_t i = 0; i < slot_names_.size(); ++i) slots_.emplace_back(shard_.size);
  if (config_.ema_decay > 0) averages_ = std::make_unique<FloatBuffer>(shard_.size);
}

void ShardParameters::Initialize(const TensorSource& values) {
  std::shared_ptr<FloatBuffer> fresh = pool_.Take();
  CopyTo(values, fresh->span());
  if (averages_) std::ranges::copy(fresh->span(), averages_->span().begin());
  for (size_t i = 0; i < slots_.size(); ++i) {
    std::ranges::fill(slots_[i].span(), SlotInitialValue(config_.optimizer, static_cast<int>(i)));
  }
  values_ = std::move(fresh);
}

int64_t ShardParameters::RowSize(const Segment& segment) const {
  const Variable& variable = config_.variables[segment.variable];
  if (variable.shape.empty() || variable.shape.front() == 0) return 1;
  return std::max<int64_t>(variable.size / variable.shape.front(), 1);
}

StateSlice ShardParameters::Slice(const Segment& segment, const std::string& suffix) const {
  const Variable& variable = config_.variables[segment.variable];
  StateSlice slice{.name = variable.name + suffix, .shape = variable.shape};
  if (segment.length != variable.size) {
    slice.first_row = (segment.flat_offset - variable.offset) / RowSize(segment);
    slice.row_count = segment.length / RowSize(segment);
  }
  return slice;
}

ShardState ShardParameters::Describe() const {
  ShardState state;
  for (const Segment& segment : shard_.segments) {
    state.slices.push_back(Slice(segment, ""));
    for (const std::string& slot : slot_names_) {
      state.slices.push_back(Slice(segment, absl::StrCat("/", slot)));
    }
    if (averages_) state.slices.push_back(Slice(segment, kAverageSuffix));
  }
  return state;
}

absl::Status ShardParameters::Load(const ShardState& state) {
  const ShardState wanted = Describe();
  if (state.slices.size() != wanted.slices.size()) {
    return base::DataError(absl::StrCat("the checkpoint gave ", state.slices.size(),
                                        " tensors for this shard, which has ",
                                        wanted.slices.size()));
  }
  std::shared_ptr<FloatBuffer> fresh = pool_.Take();
  auto next = state.slices.begin();
  for (const Segment& segment : shard_.segments) {
    std::vector<std::span<float>> targets = {fresh->span()};
    for (FloatBuffer& slot : slots_) targets.push_back(slot.span());
    if (averages_) targets.push_back(averages_->span());
    for (const std::span<float> target : targets) {
      const std::string& name = wanted.slices[next - state.slices.begin()].name;
      if (next->name != name || static_cast<int64_t>(next->elements().size()) != segment.length) {
        return base::DataError(absl::StrCat("the checkpoint gave '", next->name, "' with ",
                                            next->elements().size(), " elements where '", name,
                                            "' with ", segment.length, " is needed"));
      }
      std::ranges::copy(next->elements(), target.begin() + segment.shard_offset);
      ++next;
    }
  }
  values_ = std::move(fresh);
  return absl::OkStatus();
}

void ShardParameters::Apply(const TensorSource& gradient, float scale, int64_t step, Team* team) {
  std::shared_ptr<FloatBuffer> next = pool_.Take();
  UpdateArgs args;
  args.gradient_scale = scale;
  args.learning_rate = LearningRate(config_.schedule, step);
  args.update = step + 1;
  args.ema_decay = EmaDecay(config_.ema_decay, step);
  args.slots.resize(slots_.size());
  if (team == nullptr) {
    ApplyPart(gradient, 0, size(), std::move(args), *next);
  } else {
    const int64_t part = (size() / team->size() + kChunk - 1) / kChunk * kChunk;
    team->Run([&](int i) {
      const int64_t begin = std::min(size(), part * i);
      const int64_t end = i + 1 == team->size() ? size() : std::min(size(), begin + part);
      ApplyPart(gradient, begin, end, args, *next);
    });
  }
  values_ = std::move(next);
}

void ShardParameters::ApplyPart(const TensorSource& gradient, int64_t begin, int64_t end,
                                UpdateArgs args, FloatBuffer& next) {
  ForEachChunk(gradient, begin, end, [&](int64_t offset, std::span<const float> chunk) {
    args.gradient = chunk;
    args.old_parameters = values_->span().subspan(offset, chunk.size());
    args.new_parameters = next.span().subspan(offset, chunk.size());
    for (size_t i = 0; i < slots_.size(); ++i) {
      args.slots[i] = slots_[i].span().subspan(offset, chunk.size());
    }
    if (averages_) {
      args.new_ema = averages_->span().subspan(offset, chunk.size());
      args.old_ema = args.new_ema;
    }
    ApplyUpdate(config_.optimizer, args);
  });
}

SharedBuffer ShardParameters::Averages() { return averages_ ? CopyOf(*averages_) : values_; }

SharedBuffer ShardParameters::CopyOf(const FloatBuffer& buffer) {
  std::shared_ptr<FloatBuffer> copy = pool_.Take();
  std::ranges::copy(buffer.span(), copy->span().begin());
  return copy;
}

ShardCopy ShardParameters::Copy(int64_t step) {
  ShardCopy copy{.global_step = step, .values = values_, .averages = Averages()};
  for (const FloatBuffer& slot : slots_) copy.slots.push_back(CopyOf(slot));
  return copy;
}

ShardState ShardParameters::ToState(const ShardCopy& copy) const {
  ShardState state = Describe();
  state.global_step = copy.global_step;
  auto next = state.slices.begin();
  for (const Segment& segment : shard_.segments) {
    std::vector<std::span<const float>> sources = {copy.values->span()};
    for (const SharedBuffer& slot : copy.slots) sources.push_back(slot->span());
    if (averages_) sources.push_back(copy.averages->span());
    for (const std::span<const float> source : sources) {
      next->borrowed = source.subspan(segment.shard_offset, segment.length);
      ++next;
    }
  }
  return state;
}

}  // namespace trainer
