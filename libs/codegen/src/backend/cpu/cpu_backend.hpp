// The CPU as a backend: kernels in vector extensions, a version for each instruction set.

#pragma once

#include <vector>

#include "backend/backend.hpp"
#include "kiln/codegen/target.hpp"

namespace kiln::codegen {

/// What a caller decides about its kernels.
struct CpuPolicy {
  bool winograd = true;  ///< Convolutions may be computed in tiles (`Options::winograd`).
};

/// Plans for the first of its instruction sets, and writes kernels for all.
class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(std::vector<Target> targets, const CpuPolicy& policy = {});

  [[nodiscard]] ir::DeviceType device() const override { return ir::DeviceType::kCpu; }
  [[nodiscard]] ir::Graph prepare(const ir::Graph& graph, bool bind_constants) const override;
  [[nodiscard]] std::optional<LibraryMatch> match(const MatchContext& context,
                                                  const ir::Node& node) const override;
  [[nodiscard]] FusionLimits fusion_limits() const override;
  [[nodiscard]] LoopPolicy loop_policy() const override;
  [[nodiscard]] std::size_t target_count() const override { return targets_.size(); }
  [[nodiscard]] std::string features(std::size_t target) const override;
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
  std::vector<Target> targets_;
  CpuPolicy policy_;
};

}  // namespace kiln::codegen
