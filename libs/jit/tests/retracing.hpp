// Options with which a changed program is noticed at a certain call, whatever time calls take.

#pragma once

#include <torch/torch.h>

#include <limits>

#include "kiln/jit/compile.hpp"

namespace kiln::testing {

/// Traces at calls 2, 4, 8, … without waiting.
inline CompileOptions prompt(OnChange on_change = OnChange::kEager) {
  CompileOptions options;
  options.use_cache = false;
  options.retrace_budget = std::numeric_limits<double>::infinity();
  options.on_change = on_change;
  return options;
}

/// As near as kernels that round elsewhere come.
inline bool is_close(const torch::Tensor& a, const torch::Tensor& b) {
  return torch::allclose(a, b, 1e-4, 1e-5);
}

/// Looks before every call, and throws where it sees a change.
inline CompileOptions suspicious() {
  CompileOptions options = prompt(OnChange::kThrow);
  options.retrace = Retrace::kAlways;
  return options;
}

}  // namespace kiln::testing
