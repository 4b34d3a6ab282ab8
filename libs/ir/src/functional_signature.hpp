// The signatures of operators that passes put into a graph: what a trace would have recorded.

#pragma once

#include <string>
#include <string_view>

namespace kiln::ir {

/// "Tensor self,int dim->Tensor" for an operator that passes make; empty for others.
[[nodiscard]] std::string functional_signature(std::string_view target);

}  // namespace kiln::ir
