#include "trainer/cuda/resident_program.h"

#include <cmath>
#include <utility>

#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/cuda/describe_model.h"
#include "trainer/model/batch_check.h"

namespace trainer {
namespace {

TrainerCudaOptimizer OptimizerOf(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kMomentum:
      return kTrainerCudaMomentum;
    case OptimizerKind::kAdam:
      return kTrainerCudaAdam;
    case OptimizerKind::kAdagrad:
      return kTrainerCudaAdagrad;
    case OptimizerKind::kSgd:
      break;
  }
  return kTrainerCudaSgd;
}

// Adam's bias corrections, folded into the rate as in trainer/model/optimizer.cc.
float RateOf(const OptimizerOptions& options, float learning_rate, int64_t update) {
  if (options.kind != OptimizerKind::kAdam) return learning_rate;
  const auto t = static_cast<double>(update);
  return static_cast<float>(learning_rate *
                            std::sqrt(1.0 - std::pow(static_cast<double>(options.beta2), t)) /
                            (1.0 - std::pow(static_cast<double>(options.beta1), t)));
}

class CudaResidentProgram : public ResidentProgram {
 public:
  CudaResidentProgram(std::shared_ptr<const cuda::Plugin> plugin,
                      std::shared_ptr<const Model> model, const ResidentOptions& options)
      : plugin_(std::move(plugin)), model_(std::move(model)), options_(options) {}
  ~CudaResidentProgram() override {
    if (program_ != nullptr) plugin_->api().destroy(program_);
  }

  absl::Status Create() {
    const cuda::DescribedModel described = cuda::Describe(*model_);
    const TrainerCudaModel model = described.Raw();
    const OptimizerOptions& optimizer = options_.optimizer;
    TrainerCudaOptions raw = {};
    raw.device = options_.device;
    raw.training = 1;
    raw.batch_size = options_.batch_size;
    raw.memory_fraction = options_.memory_fraction;
    raw.allow_growth = options_.allow_growth ? 1 : 0;
    raw.allow_tf32 = options_.allow_tf32 ? 1 : 0;
    raw.resident = {.on = 1,
                    .optimizer = OptimizerOf(optimizer.kind),
                    .slots = static_cast<int32_t>(slot_count()),
                    .ema = options_.ema ? 1 : 0,
                    .momentum = optimizer.momentum,
                    .beta1 = optimizer.beta1,
                    .beta2 = optimizer.beta2,
                    .epsilon = optimizer.epsilon,
                    .clip_norm = options_.clip_norm,
                    .reserved = 0};
    TrainerCudaError error = {};
    return cuda::Plugin::ToStatus(plugin_->api().create(&model, &raw, &program_, &error), error);
  }

  absl::Status Load(const ResidentState& state) override {
    ResidentState copy = state;  // the interface has one struct for both directions
    RETURN_IF_ERROR(CheckState(copy));
    const TrainerCudaState raw = Raw(copy);
    TrainerCudaError error = {};
    return cuda::Plugin::ToStatus(plugin_->api().load(program_, &raw, &error), error);
  }

  absl::StatusOr<ResidentState> Store() override {
    const auto size = static_cast<size_t>(model_->parameter_count());
    ResidentState state = {.parameters = std::vector<float>(size),
                           .slots = std::vector(slot_count(), std::vector<float>(size)),
                           .ema = std::vector<float>(options_.ema ? size : 0)};
    const TrainerCudaState raw = Raw(state);
    TrainerCudaError error = {};
    RETURN_IF_ERROR(cuda::Plugin::ToStatus(plugin_->api().store(program_, &raw, &error), error));
    return state;
  }

  absl::StatusOr<float> Train(const Batch& batch, float learning_rate, int64_t update,
                              float ema_decay) override {
    RETURN_IF_ERROR(CheckExamples(*model_, options_.batch_size, batch));
    RETURN_IF_ERROR(CheckTargets(*model_, batch));
    const TrainerCudaBatch raw = cuda::RawBatch(batch);
    TrainerCudaSums sums = {};
    TrainerCudaError error = {};
    RETURN_IF_ERROR(cuda::Plugin::ToStatus(
        plugin_->api().train(program_, &raw, RateOf(options_.optimizer, learning_rate, update),
                             ema_decay, &sums, &error),
        error));
    return LossOfSums(*model_, batch.size, sums.loss, sums.squares);
  }

 private:
  size_t slot_count() const { return SlotNames(options_.optimizer.kind).size(); }

  absl::Status CheckState(const ResidentState& state) const {
    const int64_t size = model_->parameter_count();
    RETURN_IF_ERROR(CheckSize("parameters", state.parameters.size(), size));
    RETURN_IF_ERROR(CheckSize("averages", state.ema.size(), options_.ema ? size : 0));
    if (state.slots.size() != slot_count()) {
      return base::UsageError(
          base::StrCat(state.slots.size(), " slots where the optimizer has ", slot_count()));
    }
    for (const auto& slot : state.slots) RETURN_IF_ERROR(CheckSize("slots", slot.size(), size));
    return absl::OkStatus();
  }

  static TrainerCudaState Raw(ResidentState& state) {
    TrainerCudaState raw = {};
    raw.parameters = state.parameters.data();
    for (size_t i = 0; i < state.slots.size(); ++i) raw.slots[i] = state.slots[i].data();
    raw.ema = state.ema.empty() ? nullptr : state.ema.data();
    return raw;
  }

  const std::shared_ptr<const cuda::Plugin> plugin_;
  const std::shared_ptr<const Model> model_;
  const ResidentOptions options_;
  TrainerCudaProgram* program_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ResidentProgram>> MakeResidentProgram(
    std::shared_ptr<const cuda::Plugin> plugin, std::shared_ptr<const Model> model,
    const ResidentOptions& options) {
  if (options.batch_size < 1) {
    return base::UsageError(
        base::StrCat("the batch size must be at least 1, not ", options.batch_size));
  }
  auto program =
      std::make_unique<CudaResidentProgram>(std::move(plugin), std::move(model), options);
  RETURN_IF_ERROR(program->Create());
  return program;
}

}  // namespace trainer
