// The operators that random programs are made of.

#pragma once

#include "random_program.hpp"

namespace kiln::differential {

/// How many operators there are.
[[nodiscard]] std::size_t step_count();

/// All values of a program: `inputs`, then one for each step. Throws what eager throws.
[[nodiscard]] Tensors run_steps(const std::vector<Step>& steps, Tensors inputs);

}  // namespace kiln::differential
