// Calls of libtorch as statements of the program.

#pragma once

#include <cstdint>

#include "kiln/ir/graph.hpp"
#include "program/emit.hpp"

namespace kiln::codegen {

/// Appends the statements that run `node` as step number `step`.
void emit_extern_call(Emission& emission, const ir::Node& node, std::uint32_t step);

// The kinds of call, a file each.

void emit_shim_call(Emission& emission, const ir::Node& node, bool out);
void emit_dispatcher_call(Emission& emission, const ir::Node& node);
void emit_proxy_call(Emission& emission, const ir::Node& node);

}  // namespace kiln::codegen
