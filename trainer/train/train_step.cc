#include "trainer/train/train_step.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "trainer/model/optimizer.h"
#include "trainer/model/towers.h"

namespace trainer {

namespace {

class LocalStep final : public TrainStep {
 public:
  LocalStep(const Options& options, const Settings& settings, Input* input, TrainStrategy* strategy,
            std::unique_ptr<Program> program)
      : input_(input),
        strategy_(strategy),
        clip_norm_(settings.spec.clip_norm),
        seed_(options.seed),
        program_(std::move(program)) {
    const Model& model = *settings.model;
    const int64_t examples = settings.spec.batch_size * settings.towers;
    inputs_.resize(examples * model.input_size());
    batch_.size = examples;
    if (model.spec().loss == LossKind::kMeanSquaredError) {
      targets_.resize(examples * model.output_size());
    } else {
      labels_.resize(examples);
    }
    batch_.inputs = inputs_;
    batch_.labels = labels_;
    batch_.targets = targets_;
  }

  absl::StatusOr<StepOutcome> Run(std::stop_token stop) override {
    RETURN_IF_ERROR(input_->Next(inputs_, labels_, targets_));
    batch_.dropout_seed = seed_ * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(++steps_);
    gradients_ = strategy_->gradients();
    const absl::StatusOr<float> loss =
        program_->Gradients(batch_, strategy_->parameters(), gradients_);
    if (!loss.ok()) {
      return absl::Status(loss.status().code(),
                          absl::StrCat(loss.status().message(), " (local step ", steps_,
                                       "; a lower --learning_rate or --clip_norm may help)"));
    }
    if (clip_norm_ > 0) ClipByGlobalNorm(clip_norm_, gradients_);
    StepOutcome outcome{.loss = *loss, .examples = batch_.size};
    ASSIGN_OR_RETURN(outcome.result, strategy_->Step(stop));
    if (outcome.result.dropped) gradients_ = {};  // their memory may have gone with a lost server
    return outcome;
  }

  std::span<const float> gradients() const override { return gradients_; }
  const Batch& batch() const override { return batch_; }

 private:
  Input* const input_;
  TrainStrategy* const strategy_;
  const float clip_norm_;
  const uint64_t seed_;
  const std::unique_ptr<Program> program_;
  int64_t steps_ = 0;
  std::vector<float> inputs_;
  std::vector<int32_t> labels_;
  std::vector<float> targets_;
  std::span<float> gradients_;  // the strategy's
  Batch batch_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TrainStep>> TrainStep::Create(const Options& options,
                                                             const Settings& settings,
                                                             Backend& backend, Input* input,
                                                             TrainStrategy* strategy) {
  const ProgramOptions compile = TrainingProgram(options, settings);
  std::unique_ptr<Program> program;
  if (settings.towers > 1) {
    ASSIGN_OR_RETURN(program, CompileTowers(backend, settings.model, compile, settings.towers));
  } else {
    ASSIGN_OR_RETURN(program, backend.Compile(settings.model, compile));
  }
  return std::make_unique<LocalStep>(options, settings, input, strategy, std::move(program));
}

}  // namespace trainer
