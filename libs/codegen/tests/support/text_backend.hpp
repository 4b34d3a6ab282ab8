// A device that prints its kernels and runs them element by element: the smallest backend there is.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "loop/evaluate_nest.hpp"
#include "schedule/schedule.hpp"

namespace kiln::codegen::testing {

/// Prints loop nests, and brings one kernel of its own: `mm` of contiguous matrices.
class TextBackend : public Backend {
 public:
  /// `limits` and `loops` may be another device's; kernels are written once for each of `targets`.
  explicit TextBackend(FusionLimits limits = {.max_operands = 24,
                                              .max_row_elements = 1 << 17,
                                              .max_loads = 24,
                                              .max_recompute_cost = 3},
                       std::vector<std::string> targets = {"plain"},
                       LoopPolicy loops = {})
      : limits_(limits), targets_(std::move(targets)), loops_(loops) {}

  [[nodiscard]] ir::DeviceType device() const override { return ir::DeviceType::kCpu; }
  [[nodiscard]] ir::Graph prepare(const ir::Graph& graph, bool bind_constants) const override;
  [[nodiscard]] std::optional<LibraryMatch> match(const MatchContext& context,
                                                  const ir::Node& node) const override;
  [[nodiscard]] FusionLimits fusion_limits() const override { return limits_; }
  [[nodiscard]] LoopPolicy loop_policy() const override { return loops_; }
  [[nodiscard]] std::size_t target_count() const override { return targets_.size(); }
  [[nodiscard]] std::string features(std::size_t target) const override { return targets_[target]; }
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
  FusionLimits limits_;
  std::vector<std::string> targets_;
  LoopPolicy loops_;
};

/// Runs a schedule that was made for a `TextBackend`, and has no step of libtorch's.
class TextMachine {
 public:
  explicit TextMachine(const Schedule& schedule);

  /// The elements of an input or a constant, which is dense.
  void set(const ir::Graph& graph, const std::string& input, std::vector<Element> elements);
  void run();
  /// The elements of a value that lies in memory, row-major.
  [[nodiscard]] std::vector<Element> get(const ir::Graph& graph, ir::ValueId value) const;

 private:
  [[nodiscard]] std::span<Element> memory(const KernelCall::Operand& operand);
  void multiply(const KernelCall& call, const LibraryCall& library);

  const Schedule& schedule_;
  std::vector<std::vector<Element>> buffers_;
};

}  // namespace kiln::codegen::testing
