// One elementwise pass for each optimiser, with and without moving averages: the pass is bound by
// memory traffic, so everything that an update touches is read and written once.
#include "trainer/model/optimizer.h"

#include <cmath>

#include "base/exit_codes.h"
#include "base/str_cat.h"
#include "trainer/model/flush_denormals.h"
#include "trainer/model/multiversion.h"

namespace trainer {
namespace {

// Raw pointers of an UpdateArgs, and the scalars that a kernel needs.
struct Pointers {
  const float* gradient;
  const float* old_parameters;
  float* new_parameters;
  float* slot0;
  float* slot1;
  const float* old_ema;  // null = no averages
  float* new_ema;
  size_t size;
  float scale;
  float ema_keep;  // the share of the average that is replaced: 1 - decay
};

// The update rules: each takes the element's scaled gradient and returns the parameter's decrement.
struct Sgd {
  float rate;
  static constexpr int kSlots = 0;
  float operator()(float gradient, float& /*slot0*/, float& /*slot1*/) const {
    return rate * gradient;
  }
};

struct Momentum {
  float rate, momentum;
  static constexpr int kSlots = 1;
  float operator()(float gradient, float& accumulator, float& /*slot1*/) const {
    accumulator = momentum * accumulator + gradient;
    return rate * accumulator;
  }
};

// Kingma and Ba, 2015, section 2, last paragraph: the bias corrections folded into the rate.
struct Adam {
  float corrected_rate, beta1, beta2, epsilon;
  static constexpr int kSlots = 2;
  float operator()(float gradient, float& first, float& second) const {
    first += (1.0f - beta1) * (gradient - first);
    second += (1.0f - beta2) * (gradient * gradient - second);
    return corrected_rate * first / (std::sqrt(second) + epsilon);
  }
};

struct Adagrad {
  float rate;
  static constexpr int kSlots = 1;
  float operator()(float gradient, float& accumulator, float& /*slot1*/) const {
    accumulator += gradient * gradient;
    return rate * gradient / std::sqrt(accumulator);
  }
};

template <typename Rule, bool kEma>
[[gnu::always_inline]] inline void Loop(const Rule rule, const Pointers p) {
  float unused0 = 0.0f;
  float unused1 = 0.0f;
  TRAINYARD_INDEPENDENT
  for (size_t i = 0; i < p.size; ++i) {
    float slot0 = Rule::kSlots > 0 ? p.slot0[i] : unused0;
    float slot1 = Rule::kSlots > 1 ? p.slot1[i] : unused1;
    const float parameter = p.old_parameters[i] - rule(p.gradient[i] * p.scale, slot0, slot1);
    if constexpr (Rule::kSlots > 0) p.slot0[i] = slot0;
    if constexpr (Rule::kSlots > 1) p.slot1[i] = slot1;
    p.new_parameters[i] = parameter;
    if constexpr (kEma) {
      const float average = p.old_ema[i];
      p.new_ema[i] = average - p.ema_keep * (average - parameter);
    }
  }
}

template <typename Rule>
[[gnu::always_inline]] inline void Run(const Rule rule, const Pointers& p) {
  if (p.old_ema != nullptr) {
    Loop<Rule, true>(rule, p);
  } else {
    Loop<Rule, false>(rule, p);
  }
}

TRAINYARD_MULTIVERSION void RunSgd(const Pointers& p, const Sgd& rule) { Run(rule, p); }
TRAINYARD_MULTIVERSION void RunMomentum(const Pointers& p, const Momentum& rule) { Run(rule, p); }
TRAINYARD_MULTIVERSION void RunAdam(const Pointers& p, const Adam& rule) { Run(rule, p); }
TRAINYARD_MULTIVERSION void RunAdagrad(const Pointers& p, const Adagrad& rule) { Run(rule, p); }

// Partial sums in fixed lanes: vectorises, and gives the same result on every machine.
TRAINYARD_MULTIVERSION double SumOfSquares(const float* values, size_t size) {
  constexpr size_t kLanes = 16;
  double sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  for (; i < size; ++i) sums[0] += static_cast<double>(values[i]) * values[i];
  double total = 0.0;
  for (double sum : sums) total += sum;
  return total;
}

TRAINYARD_MULTIVERSION void Scale(float factor, float* values, size_t size) {
  for (size_t i = 0; i < size; ++i) values[i] *= factor;
}

Adam MakeAdam(const OptimizerOptions& options, const UpdateArgs& args) {
  const double t = static_cast<double>(args.update);
  const double correction = std::sqrt(1.0 - std::pow(static_cast<double>(options.beta2), t)) /
                            (1.0 - std::pow(static_cast<double>(options.beta1), t));
  return {static_cast<float>(args.learning_rate * correction), options.beta1, options.beta2,
          options.epsilon};
}

}  // namespace

absl::StatusOr<OptimizerKind> ParseOptimizerKind(std::string_view name) {
  for (OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdam,
                             OptimizerKind::kAdagrad}) {
    if (name == OptimizerName(kind)) return kind;
  }
  return base::UsageError(
      base::StrCat("unknown optimizer '", name, "': choose sgd, momentum, adam or adagrad"));
}

std::string_view OptimizerName(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return "sgd";
    case OptimizerKind::kMomentum:
      return "momentum";
    case OptimizerKind::kAdam:
      return "adam";
    case OptimizerKind::kAdagrad:
      return "adagrad";
  }
  return "unknown";
}

std::vector<std::string> SlotNames(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return {};
    case OptimizerKind::kMomentum:
      return {"Momentum"};
    case OptimizerKind::kAdam:
      return {"Adam", "Adam_1"};
    case OptimizerKind::kAdagrad:
      return {"Adagrad"};
  }
  return {};
}

float SlotInitialValue(const OptimizerOptions& options, int /*slot*/) {
  return options.kind == OptimizerKind::kAdagrad ? options.initial_accumulator_value : 0.0f;
}

void ApplyUpdate(const OptimizerOptions& options, const UpdateArgs& args) {
  const FlushDenormals flush;
  const Pointers pointers = {
      .gradient = args.gradient.data(),
      .old_parameters = args.old_parameters.data(),
      .new_parameters = args.new_parameters.data(),
      .slot0 = !args.slots.empty() ? args.slots[0].data() : nullptr,
      .slot1 = args.slots.size() > 1 ? args.slots[1].data() : nullptr,
      .old_ema = args.old_ema.empty() ? nullptr : args.old_ema.data(),
      .new_ema = args.new_ema.data(),
      .size = args.gradient.size(),
      .scale = args.gradient_scale,
      .ema_keep = 1.0f - args.ema_decay,
  };
  switch (options.kind) {
    case OptimizerKind::kSgd:
      return RunSgd(pointers, {args.learning_rate});
    case OptimizerKind::kMomentum:
      return RunMomentum(pointers, {args.learning_rate, options.momentum});
    case OptimizerKind::kAdam:
      return RunAdam(pointers, MakeAdam(options, args));
    case OptimizerKind::kAdagrad:
      return RunAdagrad(pointers, {args.learning_rate});
  }
}

float ClipByGlobalNorm(float max_norm, std::span<float> gradient) {
  const auto norm = static_cast<float>(std::sqrt(SumOfSquares(gradient.data(), gradient.size())));
  if (norm > max_norm) Scale(max_norm / norm, gradient.data(), gradient.size());
  return norm;
}

}  // namespace trainer
