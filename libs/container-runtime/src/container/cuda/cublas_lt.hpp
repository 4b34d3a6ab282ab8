// What matrix products take of cuBLASLt's stable ABI, found in the library that libtorch has
// loaded: neither its headers nor the library are needed to build a model.

#pragma once

#include <cstddef>
#include <cstdint>

#include "container/cuda/driver.hpp"

namespace kiln::container::cuda {

/// cublasStatus_t: 0, or why not.
using LtStatus = int;

/// cudaDataType_t, cublasComputeType_t and cublasOperation_t.
inline constexpr int kLtFloat32 = 0;
inline constexpr int kLtFloat16 = 2;
inline constexpr int kLtBFloat16 = 14;
inline constexpr int kLtComputeFloat32 = 68;
inline constexpr int kLtTransposed = 1;

/// cublasLtMatmulDescAttributes_t.
inline constexpr int kLtTransA = 3;
inline constexpr int kLtTransB = 4;
inline constexpr int kLtEpilogue = 7;
inline constexpr int kLtBiasPointer = 8;

/// cublasLtEpilogue_t.
inline constexpr std::uint32_t kLtBias = 4;
inline constexpr std::uint32_t kLtReluBias = 6;
inline constexpr std::uint32_t kLtGeluBias = 36;

/// cublasLtMatmulPreferenceAttributes_t.
inline constexpr int kLtMaxWorkspaceBytes = 1;
inline constexpr int kLtReductionSchemeMask = 3;
inline constexpr int kLtMinAlignmentA = 5;
inline constexpr int kLtMinAlignmentB = 6;
inline constexpr int kLtMinAlignmentC = 7;
inline constexpr int kLtMinAlignmentD = 8;
/// Parts of a sum are combined in the workspace as float32, not as the result's type.
inline constexpr std::uint32_t kLtReduceInComputeType = 2;

/// cublasLtMatmulAlgo_t.
struct LtAlgorithm {
  std::uint64_t data[8];
};

/// cublasLtMatmulHeuristicResult_t.
struct LtHeuristic {
  LtAlgorithm algorithm;
  std::size_t workspace_bytes;
  LtStatus state;
  float waves;
  int reserved[4];
};

/// Its entries.
struct CublasLt {
  LtStatus (*create)(Handle* lt) = nullptr;
  LtStatus (*destroy)(Handle lt) = nullptr;
  LtStatus (*create_matmul_desc)(Handle*, int compute_type, int scale_type) = nullptr;
  LtStatus (*destroy_matmul_desc)(Handle) = nullptr;
  LtStatus (*set_matmul_desc)(Handle,
                              int attribute,
                              const void* value,
                              std::size_t bytes) = nullptr;
  LtStatus (*create_layout)(
      Handle*, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t stride) = nullptr;
  LtStatus (*destroy_layout)(Handle) = nullptr;
  LtStatus (*create_preference)(Handle*) = nullptr;
  LtStatus (*destroy_preference)(Handle) = nullptr;
  LtStatus (*set_preference)(Handle, int attribute, const void* value, std::size_t bytes) = nullptr;
  LtStatus (*get_heuristic)(Handle lt,
                            Handle matmul_desc,
                            Handle a,
                            Handle b,
                            Handle c,
                            Handle d,
                            Handle preference,
                            int wanted,
                            LtHeuristic* results,
                            int* found) = nullptr;
  LtStatus (*matmul)(Handle lt,
                     Handle matmul_desc,
                     const void* alpha,
                     const void* a,
                     Handle a_layout,
                     const void* b,
                     Handle b_layout,
                     const void* beta,
                     const void* c,
                     Handle c_layout,
                     void* d,
                     Handle d_layout,
                     const LtAlgorithm* algorithm,
                     void* workspace,
                     std::size_t workspace_bytes,
                     Handle stream) = nullptr;
};

/// Throws `Failure` if this process has no cuBLASLt.
const CublasLt& cublas_lt();

}  // namespace kiln::container::cuda
