// The C interface between the trainer and its GPU plug-in libtrainer_cuda.so: one table of
// functions, fetched with dlsym("trainer_cuda_api"). Includes neither CUDA's headers nor the
// trainer's, so that each side may be built without the other's. Every change of a struct or a
// function raises kTrainerCudaApiVersion; versions must be equal.
//
// Functions return a TrainerCudaCode; where it is not kTrainerCudaOk, `error` says what was tried
// and why it failed. A program belongs to one thread at a time; everything else may be called from
// any thread. Pointers given to a call are borrowed for the call.
#pragma once

#include <cstdint>

extern "C" {

enum { kTrainerCudaApiVersion = 2 };

enum TrainerCudaCode {
  kTrainerCudaOk = 0,
  kTrainerCudaFailed = 1,
  kTrainerCudaOutOfMemory = 2,  // of the device, or of the share of it that this process may use
};

struct TrainerCudaError {
  char text[512];
};

// As CUDA counts devices: after CUDA_VISIBLE_DEVICES, in CUDA_DEVICE_ORDER.
struct TrainerCudaDevice {
  char name[256];
  char pci_bus_id[32];  // "0000:01:00.0"
  int32_t compute_major;
  int32_t compute_minor;
  int64_t memory_total_bytes;
  int64_t memory_free_bytes;
};

enum TrainerCudaLayerKind {
  kTrainerCudaDense = 0,
  kTrainerCudaConv2d = 1,
  kTrainerCudaMaxPool = 2,
  kTrainerCudaRelu = 3,
  kTrainerCudaSigmoid = 4,
  kTrainerCudaTanh = 5,
  kTrainerCudaDropout = 6,
  kTrainerCudaFlatten = 7,
};

// Images are NHWC; a layer that knows no image has height = width = 1 and its width as channels.
struct TrainerCudaLayer {
  int32_t kind;
  int32_t l2;  // 1: the weights take part in the L2 term
  int64_t in_height, in_width, in_channels;
  int64_t out_height, out_width, out_channels;
  int64_t kernel, stride, pad_top, pad_left;  // conv2d, maxpool
  int64_t weights_offset, bias_offset;        // dense, conv2d: elements of the flat buffer
  float rate;                                 // dropout
  int32_t reserved;
};

enum TrainerCudaLoss {
  kTrainerCudaSoftmaxCrossEntropy = 0,
  kTrainerCudaClippedSoftmaxCrossEntropy = 1,
  kTrainerCudaSquaredError = 2,
};

struct TrainerCudaModel {
  const TrainerCudaLayer* layers;
  int64_t layer_count;
  int64_t parameter_count;  // f32 elements of the flat buffer
  int32_t loss;
  int32_t mean;  // 1: gradients are those of the mean over the batch, 0: of the sum
  float l2;      // adds l2 · Σ w² / 2
  int32_t reserved;
};

enum TrainerCudaOptimizer {
  kTrainerCudaSgd = 0,
  kTrainerCudaMomentum = 1,
  kTrainerCudaAdam = 2,
  kTrainerCudaAdagrad = 3,
};

// Variables that stay on the device, and are updated there: as OptimizerOptions in
// trainer/model/optimizer.h.
struct TrainerCudaResident {
  int32_t on;  // 0: variables come with every call, and nothing below counts
  int32_t optimizer;
  int32_t slots;  // of the optimizer, 0 to 2
  int32_t ema;    // 1: with moving averages
  float momentum, beta1, beta2, epsilon;
  float clip_norm;  // the largest global norm of the gradients; 0 = off
  int32_t reserved;
};

// Flat buffers of parameter_count elements on the host; null where there are no such.
struct TrainerCudaState {
  float* parameters;
  float* slots[2];
  float* ema;
};

struct TrainerCudaOptions {
  int32_t device;                // as counted above
  int32_t training;              // 0: no backward pass, dropout off
  int64_t batch_size;            // the largest batch
  double memory_fraction;        // of the device's memory that this process may take, (0, 1]
  int32_t allow_growth;          // 0: all of it at once, with the first program on the device
  int32_t allow_tf32;            // 1: matrix products may round their inputs to TF32
  TrainerCudaResident resident;  // REQUIRES, where on: training
};

// As Batch in trainer/model/backend.h, already checked.
struct TrainerCudaBatch {
  int64_t size;
  const float* inputs;
  const int32_t* labels;  // null for squared error
  const float* targets;   // null but for squared error
  uint64_t dropout_seed;
};

// What a step gives beside the gradients: sums, not yet scaled.
struct TrainerCudaSums {
  double loss;     // over the batch, without the L2 term
  double squares;  // Σ w² of the L2 term
};

struct TrainerCudaProgram;

struct TrainerCudaApi {
  int32_t version;        // kTrainerCudaApiVersion of the plug-in
  const char* built_for;  // "CUDA 13.0, sm_75 sm_80", to be logged
  int32_t (*device_count)(int32_t* count, TrainerCudaError* error);
  int32_t (*describe_device)(int32_t device, TrainerCudaDevice* to, TrainerCudaError* error);
  // sum = a + b, computed on the device; `size` elements each.
  int32_t (*add)(int32_t device, const float* a, const float* b, int64_t size, float* sum,
                 TrainerCudaError* error);
  int32_t (*create)(const TrainerCudaModel* model, const TrainerCudaOptions* options,
                    TrainerCudaProgram** program, TrainerCudaError* error);
  void (*destroy)(TrainerCudaProgram* program);
  // gradients: those of the loss as reduced, L2 included. REQUIRES: training; here and for forward:
  // no resident variables.
  int32_t (*gradients)(TrainerCudaProgram* program, const TrainerCudaBatch* batch,
                       const float* parameters, float* gradients, TrainerCudaSums* sums,
                       TrainerCudaError* error);
  // outputs: (size, outputs of the last layer) row-major.
  int32_t (*forward)(TrainerCudaProgram* program, const TrainerCudaBatch* batch,
                     const float* parameters, float* outputs, TrainerCudaError* error);

  // For programs with resident variables. load: to the device; store: from it.
  int32_t (*load)(TrainerCudaProgram* program, const TrainerCudaState* from,
                  TrainerCudaError* error);
  int32_t (*store)(TrainerCudaProgram* program, const TrainerCudaState* to,
                   TrainerCudaError* error);
  // Gradients, clipping and update in one. learning_rate: Adam's with its bias corrections.
  int32_t (*train)(TrainerCudaProgram* program, const TrainerCudaBatch* batch, float learning_rate,
                   float ema_decay, TrainerCudaSums* sums, TrainerCudaError* error);
};

// The plug-in's one symbol. Never null.
using TrainerCudaEntry = const TrainerCudaApi* (*)();

}  // extern "C"
