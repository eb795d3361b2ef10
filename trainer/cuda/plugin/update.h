// The update of all variables, with slots and moving averages, as one pass over the flat buffers;
// and the norm that clips its gradient. Formulas and order as in trainer/model/optimizer.cc, their
// reference.
#pragma once

#include <cmath>
#include <cstdint>

#include "trainer/cuda/plugin/launch.h"
#include "trainer/cuda/plugin/reduce.h"
#include "trainer/cuda/plugin_api.h"

namespace trainer::cuda {

// What changes from step to step; on the device, so that a captured graph takes the next step's.
struct UpdateScalars {
  float rate;      // Adam: with its bias corrections
  float ema_keep;  // the share of a moving average that is replaced: 1 - decay
};

// Each rule takes an element's gradient and returns the parameter's decrement.
struct SgdRule {
  static constexpr int kSlots = 0;
  TRAINER_CUDA_HD float operator()(float rate, float g, float&, float&) const { return rate * g; }
};

struct MomentumRule {
  static constexpr int kSlots = 1;
  float momentum;
  TRAINER_CUDA_HD float operator()(float rate, float g, float& accumulator, float&) const {
    accumulator = momentum * accumulator + g;
    return rate * accumulator;
  }
};

struct AdamRule {
  static constexpr int kSlots = 2;
  float beta1, beta2, epsilon;
  TRAINER_CUDA_HD float operator()(float rate, float g, float& first, float& second) const {
    first += (1.0f - beta1) * (g - first);
    second += (1.0f - beta2) * (g * g - second);
    return rate * first / (sqrtf(second) + epsilon);
  }
};

struct AdagradRule {
  static constexpr int kSlots = 1;
  TRAINER_CUDA_HD float operator()(float rate, float g, float& accumulator, float&) const {
    accumulator += g * g;
    return rate * g / sqrtf(accumulator);
  }
};

template <typename Rule>
struct UpdateBody {
  Rule rule;
  const UpdateScalars* scalars;
  const float* gradients;
  const float* clip;  // the factor for gradients; null = 1
  float* parameters;
  float* slots[2];
  float* ema;  // null = no averages
  TRAINER_CUDA_HD void operator()(int64_t i) const {
    float slot0 = Rule::kSlots > 0 ? slots[0][i] : 0.0f;
    float slot1 = Rule::kSlots > 1 ? slots[1][i] : 0.0f;
    const float g = clip == nullptr ? gradients[i] : gradients[i] * *clip;
    const float parameter = parameters[i] - rule(scalars->rate, g, slot0, slot1);
    if (Rule::kSlots > 0) slots[0][i] = slot0;
    if (Rule::kSlots > 1) slots[1][i] = slot1;
    parameters[i] = parameter;
    if (ema != nullptr) ema[i] -= scalars->ema_keep * (ema[i] - parameter);
  }
};

// factor = what makes a gradient of this sum of squares at most max_norm long. A launch of one.
struct ClipFactorBody {
  const double* squares;
  float max_norm;
  float* factor;
  TRAINER_CUDA_HD void operator()(int64_t /*one*/) const {
    const auto norm = static_cast<float>(sqrt(*squares));
    *factor = norm > max_norm ? max_norm / norm : 1.0f;
  }
};

// The memory and the launches of an update. Runner: see step.h.
template <typename Runner>
class Updater {
 public:
  // options.on; REQUIRES: runner outlives the object.
  Updater(Runner* runner, const TrainerCudaResident& options, int64_t parameter_count)
      : runner_(*runner), options_(options), size_(parameter_count) {
    for (int i = 0; i < options.slots; ++i) slots_[i] = runner_.template Allocate<float>(size_);
    if (options.ema != 0) ema_ = runner_.template Allocate<float>(size_);
    scalars_ = runner_.template Allocate<UpdateScalars>(1);
    if (options.clip_norm <= 0.0f) return;
    partials_ = runner_.template Allocate<double>(kMaxSumBlocks);
    squares_ = runner_.template Allocate<double>(1);
    clip_ = runner_.template Allocate<float>(1);
  }

  UpdateScalars* scalars() const { return scalars_; }
  float* slot(int i) const { return slots_[i]; }
  float* ema() const { return ema_; }

  void Apply(const float* gradients, float* parameters) {
    if (clip_ != nullptr) {
      const int64_t blocks = SumBlocks(size_);
      runner_.Blocks(blocks, SumSquares{gradients, size_, blocks, partials_});
      runner_.Blocks(1, SumDoubles{partials_, blocks, 1, squares_});
      runner_.Each(1, ClipFactorBody{squares_, options_.clip_norm, clip_});
    }
    switch (options_.optimizer) {
      case kTrainerCudaMomentum:
        return Run(MomentumRule{options_.momentum}, gradients, parameters);
      case kTrainerCudaAdam:
        return Run(AdamRule{options_.beta1, options_.beta2, options_.epsilon}, gradients,
                   parameters);
      case kTrainerCudaAdagrad:
        return Run(AdagradRule{}, gradients, parameters);
      default:
        return Run(SgdRule{}, gradients, parameters);
    }
  }

 private:
  template <typename Rule>
  void Run(const Rule& rule, const float* gradients, float* parameters) {
    runner_.Each(size_,
                 UpdateBody<Rule>{
                     rule, scalars_, gradients, clip_, parameters, {slots_[0], slots_[1]}, ema_});
  }

  Runner& runner_;
  const TrainerCudaResident options_;
  const int64_t size_;
  float* slots_[2] = {};
  float* ema_ = nullptr;
  UpdateScalars* scalars_ = nullptr;
  double* partials_ = nullptr;
  double* squares_ = nullptr;
  float* clip_ = nullptr;  // null = no clipping
};

}  // namespace trainer::cuda
