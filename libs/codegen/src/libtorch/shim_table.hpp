// Which operators libtorch's generated C shim has, and what they take.

#pragma once

#include <span>
#include <string_view>

namespace kiln::codegen {

/// One function of the shim.
struct ShimFunction {
  std::string_view target;     ///< "aten.mm.default"
  std::string_view name;       ///< "mm_out": what stands behind "aoti_torch_cpu_".
  std::string_view signature;  ///< As `ir::Node::signature`; it decides the C prototype.
  bool out = false;            ///< Takes the result as its first argument.
};

/// All of them, sorted by target.
[[nodiscard]] std::span<const ShimFunction> shim_functions();

/// The function for `target`, or null.
[[nodiscard]] const ShimFunction* find_shim_function(std::string_view target);

}  // namespace kiln::codegen
