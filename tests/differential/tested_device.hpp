// Where the suite runs: on the CPU, or with KILN_TEST_GPU=1 on a GPU.

#pragma once

#include "draw.hpp"

namespace kiln::differential {

/// That device.
[[nodiscard]] at::Device tested_device();

/// Copies on `device` with the same strides, gaps and repetitions included, and as far from the
/// beginning of their memory: what writes to one is refused for the other too.
[[nodiscard]] Tensors copies(const Tensors& tensors, at::Device device = at::kCPU);

}  // namespace kiln::differential
