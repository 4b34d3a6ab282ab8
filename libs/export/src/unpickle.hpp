// What `torch.save` wrote, with its tensors on the CPU.

#pragma once

#include <ATen/core/ivalue.h>

#include <vector>

namespace kiln::exporter {

/// The value in `bytes`. Tensors that were on a GPU are on the CPU: there may be no GPU here.
///
/// Throws what libtorch throws, for classes that only Python knows among others.
[[nodiscard]] c10::IValue unpickle(const std::vector<char>& bytes);

}  // namespace kiln::exporter
