// GPUs of NVIDIA: loop nests as CUDA C++ that NVRTC compiles; everything else is libtorch's.

#pragma once

#include <string>
#include <vector>

#include "backend/backend.hpp"

namespace kiln::codegen {

/// What a caller may decide about code for GPUs.
struct CudaOptions {
  std::string nvrtc = {};  ///< Tells the NVRTC that compiles from another.
  /// Every kernel has the same result in every run, bit for bit. Scatters are libtorch's then,
  /// which is deterministic where the host asks it to be.
  bool deterministic = false;
};

class CudaBackend final : public Backend {
 public:
  /// Kernels are written once and compiled for each of `architectures`, "sm_90" say.
  explicit CudaBackend(std::vector<std::string> architectures, CudaOptions options = {});

  [[nodiscard]] ir::DeviceType device() const override { return ir::DeviceType::kCuda; }
  [[nodiscard]] ir::Graph prepare(const ir::Graph& graph, bool bind_constants) const override;
  [[nodiscard]] std::optional<LibraryMatch> match(const MatchContext& context,
                                                  const ir::Node& node) const override;
  /// Libtorch's are scatters if they are to be deterministic or if it accumulates half types in
  /// float, and running totals along few and long columns unless they are to be deterministic:
  /// libtorch refuses sums of floats then.
  [[nodiscard]] bool wants_loops(const ir::Graph& graph, const ir::Node& node) const override;
  /// Its threads add up so few numbers each that there is little to correct.
  [[nodiscard]] bool corrects_means() const override { return false; }
  [[nodiscard]] FusionLimits fusion_limits() const override;
  [[nodiscard]] LoopPolicy loop_policy() const override;
  /// One text serves all architectures; which of its images runs is decided on the device.
  [[nodiscard]] std::size_t target_count() const override { return 1; }
  [[nodiscard]] std::string features(std::size_t /*target*/) const override { return {}; }
  [[nodiscard]] KernelSource emit(const LoopProgram& program,
                                  const LoopNest& nest,
                                  std::size_t target,
                                  std::vector<ir::Expr>& sizes) const override;
  [[nodiscard]] KernelSource emit(const LibraryCall& call, std::size_t target) const override;
  [[nodiscard]] DeviceOperations operations() const override;
  [[nodiscard]] KernelUnits units(std::span<const KernelSource> kernels,
                                  std::size_t target,
                                  std::size_t hot_count) const override;

 private:
  std::vector<std::string> architectures_;
  CudaOptions options_;
};

}  // namespace kiln::codegen
