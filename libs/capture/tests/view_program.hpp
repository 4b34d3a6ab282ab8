// Random programs of views and mutations.
//
// A step is a handful of numbers that mean something for whatever tensors there are when it runs,
// so a program stays one when steps are taken out of it: that is what makes it shrink by itself.

#pragma once

#include <torch/torch.h>

#include <array>
#include <string>
#include <vector>

namespace kiln::capture {

using Tensors = std::vector<torch::Tensor>;

/// One operator of a program.
struct Step {
  unsigned op = 0;
  std::array<unsigned, 6> numbers = {};  // Which tensors, dimensions, lengths.
};

struct Program {
  unsigned arguments = 0;  // Which of the sets of arguments it takes.
  std::vector<Step> steps = {};
};

/// `steps` random steps. What eager refuses, or would leave undefined, is taken out.
[[nodiscard]] Program random_program(unsigned seed, unsigned steps);

/// The program's arguments: equal elements, geometry and aliasing at every call.
[[nodiscard]] Tensors make_arguments(const Program& program);

/// Runs it and returns the last tensors it made.
[[nodiscard]] Tensors run(const Program& program, const Tensors& arguments);

/// A line for each step.
[[nodiscard]] std::string describe(const Program& program);

}  // namespace kiln::capture
