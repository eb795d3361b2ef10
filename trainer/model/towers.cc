// Runs the towers on a Team; the averaging is shared out over the same threads.
#include "trainer/model/towers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/model/multiversion.h"
#include "trainer/model/team.h"

namespace trainer {
namespace {

// One copy of the model, and what it made of its share of the batch.
struct Tower {
  std::unique_ptr<Program> program;
  std::vector<float> gradients;
  Batch batch;
  float weight = 0.0f;  // in the average
  absl::StatusOr<float> loss = 0.0f;
};

TRAINYARD_MULTIVERSION void SetScaled(float weight, const float* from, float* to, size_t size) {
  TRAINYARD_INDEPENDENT
  for (size_t i = 0; i < size; ++i) to[i] = weight * from[i];
}

TRAINYARD_MULTIVERSION void AddScaled(float weight, const float* from, float* to, size_t size) {
  TRAINYARD_INDEPENDENT
  for (size_t i = 0; i < size; ++i) to[i] += weight * from[i];
}

// Examples [begin, begin + size) of a batch.
Batch Share(const Batch& batch, int64_t begin, int64_t size) {
  const auto part = [&](auto values) {
    const auto width = values.size() / static_cast<size_t>(batch.size);
    return values.subspan(static_cast<size_t>(begin) * width, static_cast<size_t>(size) * width);
  };
  Batch share;
  share.size = size;
  share.inputs = part(batch.inputs);
  share.labels = part(batch.labels);
  share.targets = part(batch.targets);
  // Towers must not drop the same units.
  share.dropout_seed = batch.dropout_seed + static_cast<uint64_t>(begin) * 0x9e3779b97f4a7c15u;
  return share;
}

class TowersProgram : public Program {
 public:
  TowersProgram(std::shared_ptr<const Model> model, std::vector<Tower> towers)
      : model_(std::move(model)),
        towers_(std::move(towers)),
        team_(static_cast<int>(towers_.size())) {}

  absl::StatusOr<float> Gradients(const Batch& batch, std::span<const float> parameters,
                                  std::span<float> gradients) override {
    if (batch.size <= 0) return base::UsageError("a batch needs at least one example");
    const size_t used = Divide(batch);
    team_.Run([&](int i) {
      Tower& tower = towers_[i];
      if (tower.batch.size == 0) return;
      tower.loss = tower.program->Gradients(tower.batch, parameters, tower.gradients);
    });
    float loss = 0.0f;
    for (size_t i = 0; i < used; ++i) {
      RETURN_IF_ERROR(towers_[i].loss.status());
      loss += towers_[i].weight * *towers_[i].loss;
    }
    team_.Run([&](int i) { Average(static_cast<size_t>(i), used, gradients); });
    return loss;
  }

  absl::Status Forward(const Batch& batch, std::span<const float> parameters,
                       std::span<float> outputs) override {
    if (batch.size <= 0) return base::UsageError("a batch needs at least one example");
    const size_t used = Divide(batch);
    const auto width = static_cast<size_t>(model_->output_size());
    const auto share = static_cast<size_t>(towers_[0].batch.size);
    team_.Run([&](int i) {
      Tower& tower = towers_[i];
      if (tower.batch.size == 0) return;
      const auto rows = static_cast<size_t>(tower.batch.size);
      const auto out = outputs.subspan(static_cast<size_t>(i) * share * width, rows * width);
      const absl::Status status = tower.program->Forward(tower.batch, parameters, out);
      tower.loss = status.ok() ? absl::StatusOr<float>(0.0f) : status;
    });
    for (size_t i = 0; i < used; ++i) RETURN_IF_ERROR(towers_[i].loss.status());
    return absl::OkStatus();
  }

 private:
  // Gives each tower its share; returns how many have one.
  size_t Divide(const Batch& batch) {
    const auto count = static_cast<int64_t>(towers_.size());
    const int64_t share = (batch.size + count - 1) / count;
    const auto used = static_cast<size_t>((batch.size + share - 1) / share);
    const bool mean = model_->spec().reduction == LossReduction::kMean;
    for (size_t i = 0; i < towers_.size(); ++i) {
      const int64_t begin = std::min(batch.size, static_cast<int64_t>(i) * share);
      const int64_t size = std::min(share, batch.size - begin);
      Tower& tower = towers_[i];
      tower.batch = Share(batch, begin, size);
      tower.weight = mean ? static_cast<float>(size) / static_cast<float>(batch.size)
                          : 1.0f / static_cast<float>(used);
    }
    return used;
  }

  // Averages one thread's range of the flat buffer, always in order of towers.
  void Average(size_t thread, size_t used, std::span<float> gradients) const {
    const size_t begin = gradients.size() * thread / towers_.size();
    const size_t size = gradients.size() * (thread + 1) / towers_.size() - begin;
    float* to = gradients.data() + begin;
    SetScaled(towers_[0].weight, towers_[0].gradients.data() + begin, to, size);
    for (size_t i = 1; i < used; ++i) {
      AddScaled(towers_[i].weight, towers_[i].gradients.data() + begin, to, size);
    }
  }

  std::shared_ptr<const Model> model_;
  std::vector<Tower> towers_;
  Team team_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Program>> CompileTowers(Backend& backend,
                                                       std::shared_ptr<const Model> model,
                                                       const ProgramOptions& options, int towers) {
  if (towers < 1) {
    return base::UsageError(base::StrCat("the number of towers must be at least 1, not ", towers));
  }
  std::vector<Tower> copies(static_cast<size_t>(towers));
  for (Tower& tower : copies) {
    ASSIGN_OR_RETURN(tower.program, backend.Compile(model, options));
    if (options.training) tower.gradients.resize(static_cast<size_t>(model->parameter_count()));
  }
  return std::make_unique<TowersProgram>(std::move(model), std::move(copies));
}

}  // namespace trainer
