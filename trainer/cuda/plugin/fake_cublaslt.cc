// For tests: a libcublasLt whose products are loops over host memory, by columns as the real one's,
// and which refuses what the real one's documentation forbids. Built with the plug-in only: it has
// the real headers.
#include <cublasLt.h>

#include <cstdint>
#include <cstring>
#include <new>

namespace {

struct Operation {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  int32_t transposed[2] = {CUBLAS_OP_N, CUBLAS_OP_N};
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float* bias = nullptr;
};

struct Layout {
  int64_t rows = 0, columns = 0, leading = 0;
};

struct Preference {
  uint64_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256};  // a, b, c, d; the real one's default
};

// What the choice of an algorithm leaves in it: proof that it was chosen, and what it relies on.
struct Chosen {
  uint64_t chosen;
  uint64_t workspace;
  uint32_t alignment[4];
};
static_assert(sizeof(Chosen) <= sizeof(cublasLtMatmulAlgo_t));

constexpr uint64_t kChosen = 0x63686f73656e;

template <typename T>
cublasStatus_t Set(T* to, const void* from, size_t size) {
  if (size != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, from, size);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T, typename Handle>
const T& As(Handle handle) {
  return *reinterpret_cast<const T*>(handle);
}

bool IsAligned(const void* pointer, uint32_t alignment) {
  return reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
}

// Element of op(matrix), the matrix stored by columns.
float At(const float* matrix, const Layout& layout, int32_t transposed, int64_t row,
         int64_t column) {
  return transposed == CUBLAS_OP_N ? matrix[column * layout.leading + row]
                                   : matrix[row * layout.leading + column];
}

int64_t Rows(const Layout& l, int32_t op) { return op == CUBLAS_OP_N ? l.rows : l.columns; }
int64_t Columns(const Layout& l, int32_t op) { return op == CUBLAS_OP_N ? l.columns : l.rows; }

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusString(cublasStatus_t /*status*/) { return "refused"; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t /*scale*/) {
  auto* const operation = new Operation;
  operation->compute = compute;
  *desc = reinterpret_cast<cublasLtMatmulDesc_t>(operation);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete reinterpret_cast<Operation*>(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t size) {
  auto* const operation = reinterpret_cast<Operation*>(desc);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Set(&operation->transposed[0], value, size);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Set(&operation->transposed[1], value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return Set(&operation->epilogue, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return Set(&operation->bias, value, size);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* to, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  if (type != CUDA_R_32F || leading < static_cast<int64_t>(rows)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *to = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Layout{static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<const Layout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* to) {
  *to = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Preference*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t size) {
  auto* const to = reinterpret_cast<Preference*>(preference);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return Set(&to->workspace, value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return Set(&to->alignment[0], value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return Set(&to->alignment[1], value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return Set(&to->alignment[2], value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return Set(&to->alignment[3], value, size);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  const auto& asked = As<Preference>(preference);
  Chosen chosen = {.chosen = kChosen, .workspace = asked.workspace, .alignment = {}};
  std::memcpy(chosen.alignment, asked.alignment, sizeof chosen.alignment);
  std::memcpy(&results[0].algo, &chosen, sizeof chosen);
  *found = wanted > 0 ? 1 : 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t desc,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* /*workspace*/, size_t workspace_bytes, cudaStream_t) {
  const auto& operation = As<Operation>(desc);
  const auto& la = As<Layout>(a_layout);
  const auto& lb = As<Layout>(b_layout);
  const auto& lc = As<Layout>(c_layout);
  const auto& ld = As<Layout>(d_layout);
  const int32_t ta = operation.transposed[0];
  const int32_t tb = operation.transposed[1];
  Chosen chosen;
  std::memcpy(&chosen, algo, sizeof chosen);
  if (chosen.chosen != kChosen || workspace_bytes < chosen.workspace) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const void* const operands[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) {
    if (!IsAligned(operands[i], chosen.alignment[i])) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (Rows(la, ta) != ld.rows || Columns(lb, tb) != ld.columns || Columns(la, ta) != Rows(lb, tb) ||
      lc.rows != ld.rows || lc.columns != ld.columns) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool with_bias = operation.epilogue == CUBLASLT_EPILOGUE_BIAS ||
                         operation.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
  const bool with_relu = operation.epilogue == CUBLASLT_EPILOGUE_RELU ||
                         operation.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
  if (with_bias && operation.bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  for (int64_t column = 0; column < ld.columns; ++column) {
    for (int64_t row = 0; row < ld.rows; ++row) {
      double sum = 0.0;
      for (int64_t k = 0; k < Columns(la, ta); ++k) {
        sum += static_cast<double>(At(static_cast<const float*>(a), la, ta, row, k)) *
               At(static_cast<const float*>(b), lb, tb, k, column);
      }
      double value = *static_cast<const float*>(alpha) * sum;
      const float factor = *static_cast<const float*>(beta);
      if (factor != 0.0f) {
        value += factor * static_cast<const float*>(c)[column * lc.leading + row];
      }
      if (with_bias) value += operation.bias[row];
      if (with_relu && value < 0.0) value = 0.0;
      static_cast<float*>(d)[column * ld.leading + row] = static_cast<float>(value);
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
