// The JSON by which PyTorch names nested arguments, for the flat case.

#pragma once

#include <cstddef>
#include <string>

namespace kiln::codegen {

/// The spec of `((x, y, …), {})`: `count` positional tensors and no keyword.
[[nodiscard]] std::string flat_input_spec(std::size_t count);
/// The spec of `(x, y, …)`.
[[nodiscard]] std::string flat_output_spec(std::size_t count);

}  // namespace kiln::codegen
