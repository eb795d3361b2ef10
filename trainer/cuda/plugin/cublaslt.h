// Matrix products on a GPU by cuBLASLt, which is loaded when it is first needed: a plug-in that
// linked it could not say what is missing.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <map>
#include <string>
#include <tuple>

#include "trainer/cuda/plugin/failure.h"
#include "trainer/cuda/plugin/product.h"

namespace trainer::cuda {

// cuBLASLt's functions, under their own names.
struct CublasLt {
  decltype(&cublasLtCreate) Create = nullptr;
  decltype(&cublasLtDestroy) Destroy = nullptr;
  decltype(&cublasLtGetStatusString) GetStatusString = nullptr;
  decltype(&cublasLtMatmul) Matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) MatmulAlgoGetHeuristic = nullptr;
  decltype(&cublasLtMatmulDescCreate) MatmulDescCreate = nullptr;
  decltype(&cublasLtMatmulDescDestroy) MatmulDescDestroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) MatmulPreferenceCreate = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) MatmulPreferenceDestroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) MatmulPreferenceSetAttribute = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy = nullptr;

  // The library, loaded once; null with the reason in *why.
  static const CublasLt* Get(std::string* why);
};

// The products of one program on one device and stream. Remembers how it did each shape of product.
class Multiplier {
 public:
  // workspace: workspace_bytes of device memory, aligned to 256 bytes.
  Multiplier(bool allow_tf32, void* workspace, size_t workspace_bytes, Failure* failure);
  ~Multiplier();
  Multiplier(const Multiplier&) = delete;
  Multiplier& operator=(const Multiplier&) = delete;

  void Multiply(const Product& product, cudaStream_t stream, Failure* failure);

 private:
  struct Plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;  // in cuBLASLt's order
    cublasLtMatmulAlgo_t algorithm = {};
  };
  // Shape, and the alignment of the operands, on which cuBLASLt's choice depends.
  using Key = std::tuple<int64_t, int64_t, int64_t, int, uint32_t, uint32_t, uint32_t>;

  static Key KeyOf(const Product& product);
  Plan* PlanFor(const Product& product, Failure* failure);
  void Describe(const Product& product, Plan* plan, Failure* failure) const;
  void Choose(const Product& product, Plan* plan, Failure* failure) const;
  void Release(const Plan& plan) const;
  void Check(cublasStatus_t status, const char* what, Failure* failure) const;

  const CublasLt* const lt_;
  const bool allow_tf32_;
  void* const workspace_;
  const size_t workspace_bytes_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, Plan> plans_;
};

}  // namespace trainer::cuda
