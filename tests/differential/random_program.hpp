// Random programs of tensors: sequences of steps that can be run again, and cut down.

#pragma once

#include <cstdint>
#include <vector>

#include "draw.hpp"

namespace kiln::differential {

/// One operator applied to values of the program. A value is an input or the result of a step.
struct Step {
  std::size_t op = 0;  ///< Which of the generator's operators.
  std::vector<std::size_t> operands;
  std::uint64_t seed = 0;  ///< What its dims, sizes and numbers follow from.
};

/// A program: its inputs, its steps, and which values it returns.
struct RandomProgram {
  std::uint64_t seed = 0;
  Tensors inputs;
  std::vector<Step> steps;
  std::vector<std::size_t> outputs;
  bool narrow = false;  ///< Some value has fewer digits than a double.

  /// Runs it. Throws what eager throws where a step cannot be applied.
  [[nodiscard]] Tensors operator()(const Tensors& tensors) const;
};

/// A program that runs and whose values stay moderate. The same seed gives the same program.
[[nodiscard]] RandomProgram random_program(std::uint64_t seed);

/// Programs that are `program` with something left out, the boldest first. Some may not run.
[[nodiscard]] std::vector<RandomProgram> smaller(const RandomProgram& program);

}  // namespace kiln::differential
