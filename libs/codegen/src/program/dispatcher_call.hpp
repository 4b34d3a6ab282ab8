// Calls by name through `aoti_torch_call_dispatcher`, with every argument in a 64-bit word.

#pragma once

namespace kiln::codegen {

/// What such calls need in the program: words from tensors, lists, strings and optionals, and back.
extern const char* const kDispatcherFunctions;

}  // namespace kiln::codegen
