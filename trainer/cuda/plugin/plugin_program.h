// The functions behind the C interface, the same for the plug-in and for its stand-in in tests.
//
// A Platform has
//   static const char* BuiltFor()
//   static void DeviceCount(int32_t* count, Failure* failure)
//   static void Describe(int32_t device, TrainerCudaDevice* to, Failure* failure)
//   static std::unique_ptr<Runner> Open(const TrainerCudaOptions&, Failure* failure)
// and its Runner, beside what a Step asks for (step.h),
//   void Upload(void* device, const void* host, int64_t bytes); void Download(void* host, const
//   void* device, int64_t bytes) void Repeat(int64_t key, const Enqueue&)     enqueues; with the
//   same key it may replay what it enqueued before void Finish() waits until everything has run
//   Failure& failure()
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "trainer/cuda/plugin/failure.h"
#include "trainer/cuda/plugin/step.h"
#include "trainer/cuda/plugin/update.h"
#include "trainer/cuda/plugin_api.h"

namespace trainer::cuda {

template <typename Platform>
class PluginProgram {
 public:
  using Runner = typename Platform::Runner;

  PluginProgram(std::unique_ptr<Runner> runner, const TrainerCudaModel& model,
                const TrainerCudaOptions& options)
      : runner_(std::move(runner)),
        parameter_bytes_(model.parameter_count * kFloat),
        squared_error_(model.loss == kTrainerCudaSquaredError),
        step_(runner_.get(), model, options.batch_size, options.training != 0) {
    if (options.resident.on == 0) return;
    updater_.emplace(runner_.get(), options.resident, model.parameter_count);
  }

  Failure& failure() { return runner_->failure(); }

  void Gradients(const TrainerCudaBatch& batch, const float* parameters, float* gradients,
                 TrainerCudaSums* sums) {
    UploadParameters(parameters);
    UploadExamples(batch);
    runner_->Repeat(batch.size, [&] { step_.Gradients(batch.size); });
    runner_->Download(gradients, step_.buffers().gradients, parameter_bytes_);
    DownloadSums(sums);
  }

  // REQUIRES: resident variables, in this and the next two.
  void Train(const TrainerCudaBatch& batch, const UpdateScalars& scalars, TrainerCudaSums* sums) {
    UploadExamples(batch);
    runner_->Upload(updater_->scalars(), &scalars, sizeof scalars);
    runner_->Repeat(kTrainKeys + batch.size, [&] {
      step_.Gradients(batch.size);
      updater_->Apply(step_.buffers().gradients, step_.buffers().parameters);
    });
    DownloadSums(sums);
  }

  void Load(const TrainerCudaState& from) {
    ForEachBuffer(
        from, [&](float* host, float* device) { runner_->Upload(device, host, parameter_bytes_); });
    runner_->Finish();
  }

  void Store(const TrainerCudaState& to) {
    ForEachBuffer(
        to, [&](float* host, float* device) { runner_->Download(host, device, parameter_bytes_); });
    runner_->Finish();
  }

  void Forward(const TrainerCudaBatch& batch, const float* parameters, float* outputs) {
    UploadParameters(parameters);
    UploadInputs(batch);
    runner_->Repeat(-batch.size, [&] { step_.Forward(batch.size, false); });
    runner_->Download(outputs, step_.Outputs(false), batch.size * step_.output_width() * kFloat);
    runner_->Finish();
  }

 private:
  static constexpr int64_t kFloat = sizeof(float);

  static constexpr int64_t kTrainKeys = int64_t{1} << 40;  // beyond any batch's size

  void UploadParameters(const float* parameters) {
    runner_->Upload(step_.buffers().parameters, parameters, parameter_bytes_);
  }
  void UploadInputs(const TrainerCudaBatch& batch) {
    runner_->Upload(step_.buffers().inputs, batch.inputs,
                    batch.size * step_.input_width() * kFloat);
  }
  void UploadExamples(const TrainerCudaBatch& batch) {
    UploadInputs(batch);
    if (squared_error_) {
      runner_->Upload(step_.buffers().targets, batch.targets,
                      batch.size * step_.output_width() * kFloat);
    } else {
      runner_->Upload(step_.buffers().labels, batch.labels, batch.size * int64_t{sizeof(int32_t)});
    }
    runner_->Upload(step_.buffers().dropout_seed, &batch.dropout_seed, sizeof batch.dropout_seed);
  }
  void DownloadSums(TrainerCudaSums* sums) {
    double results[2] = {};
    runner_->Download(results, step_.buffers().sums, sizeof results);
    runner_->Finish();
    *sums = {results[0], results[1]};
  }
  template <typename Copy>
  void ForEachBuffer(const TrainerCudaState& state, const Copy& copy) {
    copy(state.parameters, step_.buffers().parameters);
    for (int i = 0; i < 2; ++i) {
      if (updater_->slot(i) != nullptr) copy(state.slots[i], updater_->slot(i));
    }
    if (updater_->ema() != nullptr) copy(state.ema, updater_->ema());
  }

  const std::unique_ptr<Runner> runner_;
  const int64_t parameter_bytes_;
  const bool squared_error_;
  Step<Runner> step_;
  std::optional<Updater<Runner>> updater_;  // of resident variables
};

// The table of functions over a Platform.
template <typename Platform>
struct PluginTable {
  using Program = PluginProgram<Platform>;

  static int32_t Report(const Failure& failure, TrainerCudaError* error) {
    std::snprintf(error->text, sizeof error->text, "%s", failure.text.c_str());
    return failure.code;
  }
  static Program* Cast(TrainerCudaProgram* program) { return reinterpret_cast<Program*>(program); }

  static int32_t DeviceCount(int32_t* count, TrainerCudaError* error) {
    Failure failure;
    Platform::DeviceCount(count, &failure);
    return Report(failure, error);
  }

  static int32_t DescribeDevice(int32_t device, TrainerCudaDevice* to, TrainerCudaError* error) {
    Failure failure;
    Platform::Describe(device, to, &failure);
    return Report(failure, error);
  }

  static int32_t Add(int32_t device, const float* a, const float* b, int64_t size, float* sum,
                     TrainerCudaError* error) {
    Failure failure;
    const TrainerCudaOptions options = {.device = device,
                                        .training = 0,
                                        .batch_size = 1,
                                        .memory_fraction = 1.0,
                                        .allow_growth = 1,
                                        .allow_tf32 = 0,
                                        .resident = {}};
    const auto runner = Platform::Open(options, &failure);
    if (failure.code != kTrainerCudaOk) return Report(failure, error);
    const int64_t bytes = size * int64_t{sizeof(float)};
    auto* const on_device = runner->template Allocate<float>(3 * size);
    runner->Upload(on_device, a, bytes);
    runner->Upload(on_device + size, b, bytes);
    runner->Each(size, AddBody{on_device, on_device + size, on_device + 2 * size});
    runner->Download(sum, on_device + 2 * size, bytes);
    runner->Finish();
    return Report(runner->failure(), error);
  }

  static int32_t Create(const TrainerCudaModel* model, const TrainerCudaOptions* options,
                        TrainerCudaProgram** program, TrainerCudaError* error) {
    Failure failure;
    auto runner = Platform::Open(*options, &failure);
    if (failure.code != kTrainerCudaOk) return Report(failure, error);
    auto made = std::make_unique<Program>(std::move(runner), *model, *options);
    if (made->failure().code != kTrainerCudaOk) return Report(made->failure(), error);
    *program = reinterpret_cast<TrainerCudaProgram*>(made.release());
    return kTrainerCudaOk;
  }

  static void Destroy(TrainerCudaProgram* program) { delete Cast(program); }

  static int32_t Gradients(TrainerCudaProgram* program, const TrainerCudaBatch* batch,
                           const float* parameters, float* gradients, TrainerCudaSums* sums,
                           TrainerCudaError* error) {
    Cast(program)->Gradients(*batch, parameters, gradients, sums);
    return Report(Cast(program)->failure(), error);
  }

  static int32_t Forward(TrainerCudaProgram* program, const TrainerCudaBatch* batch,
                         const float* parameters, float* outputs, TrainerCudaError* error) {
    Cast(program)->Forward(*batch, parameters, outputs);
    return Report(Cast(program)->failure(), error);
  }

  static int32_t Load(TrainerCudaProgram* program, const TrainerCudaState* from,
                      TrainerCudaError* error) {
    Cast(program)->Load(*from);
    return Report(Cast(program)->failure(), error);
  }

  static int32_t Store(TrainerCudaProgram* program, const TrainerCudaState* to,
                       TrainerCudaError* error) {
    Cast(program)->Store(*to);
    return Report(Cast(program)->failure(), error);
  }

  static int32_t Train(TrainerCudaProgram* program, const TrainerCudaBatch* batch,
                       float learning_rate, float ema_decay, TrainerCudaSums* sums,
                       TrainerCudaError* error) {
    Cast(program)->Train(*batch, {learning_rate, 1.0f - ema_decay}, sums);
    return Report(Cast(program)->failure(), error);
  }

  static const TrainerCudaApi* Get() {
    static const TrainerCudaApi api = {kTrainerCudaApiVersion,
                                       Platform::BuiltFor(),
                                       DeviceCount,
                                       DescribeDevice,
                                       Add,
                                       Create,
                                       Destroy,
                                       Gradients,
                                       Forward,
                                       Load,
                                       Store,
                                       Train};
    return &api;
  }
};

}  // namespace trainer::cuda
