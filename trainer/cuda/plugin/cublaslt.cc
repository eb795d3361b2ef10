// cuBLASLt counts matrices by columns. Ours lie by rows, which is the same memory as their
// transposes by columns; so c = a · b is asked for as cᵀ = bᵀ · aᵀ, with b as the first operand.
#include "trainer/cuda/plugin/cublaslt.h"

#include <dlfcn.h>

#include <cstdint>
#include <string>
#include <type_traits>

namespace trainer::cuda {
namespace {

#define TRAINER_TEXT_(x) #x
#define TRAINER_TEXT(x) TRAINER_TEXT_(x)
constexpr const char* kLibrary = "libcublasLt.so." TRAINER_TEXT(CUBLAS_VER_MAJOR);

// The largest power of two, up to 256, that divides the address.
uint32_t AlignmentOf(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer) | 256u;
  return static_cast<uint32_t>(address & (~address + 1));
}

int Flags(const Product& p) {
  return (p.a_transposed ? 1 : 0) | (p.b_transposed ? 2 : 0) | (p.accumulate ? 4 : 0) |
         (p.bias != nullptr ? 8 : 0) | (p.relu ? 16 : 0);
}

}  // namespace

const CublasLt* CublasLt::Get(std::string* why) {
  static std::string problem;
  static const CublasLt* const functions = []() -> const CublasLt* {
    void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      problem =
          std::string(dlerror()) + ": install CUDA's cuBLAS, or name its folder in LD_LIBRARY_PATH";
      return nullptr;
    }
    static CublasLt lt;
    const auto resolve = [&](const char* name, auto* function) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
      if (*function == nullptr) problem = std::string(kLibrary) + " has no function " + name;
    };
    resolve("cublasLtCreate", &lt.Create);
    resolve("cublasLtDestroy", &lt.Destroy);
    resolve("cublasLtGetStatusString", &lt.GetStatusString);
    resolve("cublasLtMatmul", &lt.Matmul);
    resolve("cublasLtMatmulAlgoGetHeuristic", &lt.MatmulAlgoGetHeuristic);
    resolve("cublasLtMatmulDescCreate", &lt.MatmulDescCreate);
    resolve("cublasLtMatmulDescDestroy", &lt.MatmulDescDestroy);
    resolve("cublasLtMatmulDescSetAttribute", &lt.MatmulDescSetAttribute);
    resolve("cublasLtMatmulPreferenceCreate", &lt.MatmulPreferenceCreate);
    resolve("cublasLtMatmulPreferenceDestroy", &lt.MatmulPreferenceDestroy);
    resolve("cublasLtMatmulPreferenceSetAttribute", &lt.MatmulPreferenceSetAttribute);
    resolve("cublasLtMatrixLayoutCreate", &lt.MatrixLayoutCreate);
    resolve("cublasLtMatrixLayoutDestroy", &lt.MatrixLayoutDestroy);
    return problem.empty() ? &lt : nullptr;
  }();
  if (functions == nullptr) *why = problem;
  return functions;
}

Multiplier::Multiplier(bool allow_tf32, void* workspace, size_t workspace_bytes, Failure* failure)
    : lt_([&] {
        std::string why;
        const CublasLt* const lt = CublasLt::Get(&why);
        if (lt == nullptr) failure->Set(kTrainerCudaFailed, why);
        return lt;
      }()),
      allow_tf32_(allow_tf32),
      workspace_(workspace),
      workspace_bytes_(workspace_bytes) {
  if (lt_ != nullptr) Check(lt_->Create(&handle_), "start cuBLASLt", failure);
}

Multiplier::~Multiplier() {
  for (const auto& [key, plan] : plans_) Release(plan);
  if (handle_ != nullptr) lt_->Destroy(handle_);
}

void Multiplier::Multiply(const Product& product, cudaStream_t stream, Failure* failure) {
  if (!failure->ok()) return;
  const Plan* const plan = PlanFor(product, failure);
  if (plan == nullptr) return;
  if (product.bias != nullptr) {
    Check(lt_->MatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                      &product.bias, sizeof product.bias),
          "set a bias", failure);
  }
  const float one = 1.0f;
  const float beta = product.accumulate ? 1.0f : 0.0f;
  Check(lt_->Matmul(handle_, plan->operation, &one, product.b, plan->a, product.a, plan->b, &beta,
                    product.c, plan->c, product.c, plan->c, &plan->algorithm, workspace_,
                    workspace_bytes_, stream),
        "multiply matrices", failure);
}

Multiplier::Key Multiplier::KeyOf(const Product& p) {
  return {p.m, p.n, p.k, Flags(p), AlignmentOf(p.a), AlignmentOf(p.b), AlignmentOf(p.c)};
}

Multiplier::Plan* Multiplier::PlanFor(const Product& product, Failure* failure) {
  const Key key = KeyOf(product);
  const auto found = plans_.find(key);
  if (found != plans_.end()) return &found->second;
  Plan plan;
  Describe(product, &plan, failure);
  if (failure->ok()) Choose(product, &plan, failure);
  if (failure->ok()) return &plans_.emplace(key, plan).first->second;
  Release(plan);
  return nullptr;
}

void Multiplier::Describe(const Product& p, Plan* plan, Failure* failure) const {
  const cublasComputeType_t compute =
      allow_tf32_ ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  Check(lt_->MatmulDescCreate(&plan->operation, compute, CUDA_R_32F), "describe a product",
        failure);
  if (!failure->ok()) return;
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    Check(lt_->MatmulDescSetAttribute(plan->operation, attribute, &value, sizeof value),
          "describe a product", failure);
  };
  const cublasOperation_t first = p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  set(CUBLASLT_MATMUL_DESC_TRANSA, first);
  set(CUBLASLT_MATMUL_DESC_TRANSB, second);
  const cublasLtEpilogue_t epilogue =
      p.bias != nullptr ? (p.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS)
                        : (p.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (p.bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  // Each matrix by its columns: the width of our rows, then how many there are.
  const auto layout = [&](cublasLtMatrixLayout_t* to, int64_t width, int64_t count) {
    Check(lt_->MatrixLayoutCreate(to, CUDA_R_32F, static_cast<uint64_t>(width),
                                  static_cast<uint64_t>(count), width),
          "describe a matrix", failure);
  };
  layout(&plan->a, p.b_transposed ? p.k : p.n, p.b_transposed ? p.n : p.k);
  layout(&plan->b, p.a_transposed ? p.m : p.k, p.a_transposed ? p.k : p.m);
  layout(&plan->c, p.n, p.m);
}

void Multiplier::Choose(const Product& p, Plan* plan, Failure* failure) const {
  cublasLtMatmulPreference_t preference = nullptr;
  Check(lt_->MatmulPreferenceCreate(&preference), "prepare a product", failure);
  if (!failure->ok()) return;
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    Check(lt_->MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
          "prepare a product", failure);
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes_);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, AlignmentOf(p.b));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, AlignmentOf(p.a));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, AlignmentOf(p.c));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, AlignmentOf(p.c));
  cublasLtMatmulHeuristicResult_t best = {};
  int found = 0;
  Check(lt_->MatmulAlgoGetHeuristic(handle_, plan->operation, plan->a, plan->b, plan->c, plan->c,
                                    preference, 1, &best, &found),
        "choose how to multiply matrices", failure);
  lt_->MatmulPreferenceDestroy(preference);
  if (failure->ok() && found == 0) {
    failure->Set(kTrainerCudaFailed, "cuBLASLt has no way to multiply (" + std::to_string(p.m) +
                                         ", " + std::to_string(p.k) + ") by (" +
                                         std::to_string(p.k) + ", " + std::to_string(p.n) + ")");
  }
  plan->algorithm = best.algo;
}

void Multiplier::Release(const Plan& plan) const {
  for (cublasLtMatrixLayout_t layout : {plan.a, plan.b, plan.c}) {
    if (layout != nullptr) lt_->MatrixLayoutDestroy(layout);
  }
  if (plan.operation != nullptr) lt_->MatmulDescDestroy(plan.operation);
}

void Multiplier::Check(cublasStatus_t status, const char* what, Failure* failure) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  failure->Set(kTrainerCudaFailed,
               std::string("could not ") + what + ": " + lt_->GetStatusString(status));
}

}  // namespace trainer::cuda
