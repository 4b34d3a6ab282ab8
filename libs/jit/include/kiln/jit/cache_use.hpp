// What compiled code is kept by: which cache, under which key, with which guards.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kiln/autograd_cache/cache.hpp"
#include "kiln/codegen/compile.hpp"
#include "kiln/ir/graph.hpp"
#include "kiln/jit/options.hpp"

namespace kiln {

/// The cache that `options` ask for, or null. Functions with equal settings share one, and with it
/// what it holds in memory and what it knows of a remote tier that failed.
std::shared_ptr<autograd_cache::Cache> open_cache(const CompileOptions& options);

/// Everything that compiled code depends on but the program itself, and but the compiler, which is
/// a guard: a machine without one takes what any compiler made.
[[nodiscard]] autograd_cache::KeyBuilder environment_key(const codegen::Options& options,
                                                         const std::string& identity,
                                                         ir::DeviceType device);

/// Everything that a compiled graph depends on.
[[nodiscard]] autograd_cache::Key key_of(const ir::Graph& graph,
                                         const codegen::Options& options,
                                         const std::string& identity);

/// The guards of an entry that is made here and now from `graph`: the compiler, what the CPU must
/// have, and the custom operators with their identities.
[[nodiscard]] std::string guards_of(const ir::Graph& graph, const codegen::Options& options);

/// Whether guards hold here and now.
[[nodiscard]] bool guards_hold(std::string_view guards, const codegen::Options& options);

/// Why a program with `graph` must not be cached, or nothing.
[[nodiscard]] std::optional<std::string> reason_not_to_cache(const ir::Graph& graph);

}  // namespace kiln
