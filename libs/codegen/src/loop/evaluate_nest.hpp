// What a loop nest means, element by element: slow, and the reference for backends.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "loop/evaluate_scalar.hpp"
#include "loop/loop_nest.hpp"

namespace kiln::codegen {

/// Runs one nest. Sizes must be constant.
class NestEvaluator final : ScalarEvaluator {
 public:
  /// `memory` has what each operand of `nest` points at, in elements.
  NestEvaluator(const LoopProgram& program,
                const LoopNest& nest,
                std::vector<std::span<Element>> memory);

  void run();

 private:
  [[nodiscard]] Element leaf(const Scalar& scalar, const Point& point) override;
  void run_scan();
  void run_rows();
  void run_row(std::int64_t row);
  void run_phase(std::int64_t row, int phase);
  void run_epilogue();
  void run_updates();
  void store(const LoopNest::Store& store, ScalarId value, const Point& point);
  void write(std::uint32_t operand, const Index& address, Element value, const Point& point);
  [[nodiscard]] Element& total(std::size_t reduce, const Point& point);
  [[nodiscard]] ScalarId value_at(std::size_t store, std::int64_t inner) const;

  const LoopProgram& program_;
  const LoopNest& nest_;
  std::vector<std::span<Element>> memory_;
  std::vector<std::int64_t> extents_;
  std::vector<std::vector<Element>> totals_;  // By reduction: one, or one for each place in a row.
};

}  // namespace kiln::codegen
