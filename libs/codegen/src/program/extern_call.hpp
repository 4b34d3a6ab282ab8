// How a node without a kernel of ours is called: the generated shim where there is one, else the
// dispatcher, else the proxy executor that the host brings.

#pragma once

#include <cstdint>

#include "kiln/ir/graph.hpp"
#include "libtorch/signature.hpp"
#include "program/emit.hpp"

namespace kiln::codegen {

/// The ways down to libtorch, best first.
enum class Rung {
  kShimOut,     ///< A C function that writes into memory that we planned.
  kShim,        ///< A C function that returns new tensors.
  kDispatcher,  ///< A call by name with boxed arguments.
  kProxy,       ///< A call by number into the host, which has read a JSON beside the library.
};

/// The best way to call `node`. Throws `Error` with `kUnsupported`, naming the operator and the
/// reason, if there is none.
[[nodiscard]] Rung choose_rung(const ir::Graph& graph, const ir::Node& node);

/// Appends the statements that run `node` as step number `step`.
void emit_extern_call(Emission& emission, const ir::Node& node, std::uint32_t step);

/// The types of `node`'s arguments and results, as recorded or as the shim has them.
[[nodiscard]] Signature signature_of(const ir::Node& node);

// The kinds of call, a file each. An obstacle is the reason why `node` cannot be called so, or
// null.

void emit_shim_call(Emission& emission, const ir::Node& node, bool out);
[[nodiscard]] const char* dispatcher_obstacle(const ir::Node& node, const Signature& signature);
void emit_dispatcher_call(Emission& emission, const ir::Node& node);
[[nodiscard]] const char* proxy_obstacle(const ir::Node& node, const Signature& signature);
void emit_proxy_call(Emission& emission, const ir::Node& node);

}  // namespace kiln::codegen
