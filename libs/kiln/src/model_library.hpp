// From a graph to a model library that is loaded: the cache, the code generator and the runner, put
// together.

#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kiln/autograd_cache/cache.hpp"
#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/codegen/compile.hpp"
#include "kiln/ir/graph.hpp"
#include "kiln/options.hpp"

namespace kiln {

/// Opens the cache that `options` ask for, or null.
std::shared_ptr<autograd_cache::Cache> open_cache(const CompileOptions& options);

/// The code generator's options that follow from `options`.
codegen::Options codegen_options(const CompileOptions& options, autograd_cache::Cache* cache);

/// Everything that a compiled graph depends on.
autograd_cache::Key key_of(const ir::Graph& graph,
                           const codegen::Options& options,
                           const std::string& identity);

/// Keeps `library` under `key`. One that needs a file beside it (`report.extern_nodes`) is left
/// out: the cache names files by their content.
void store(autograd_cache::Cache& cache,
           const autograd_cache::Key& key,
           const std::filesystem::path& library,
           const codegen::Report& report);

/// Compiles `graph` (or finds it in `cache`, which may be null) and loads it. What was done is
/// added to `reports`.
autograd_dispatch::CompiledGraph compile_graph(const ir::Graph& graph,
                                               const CompileOptions& options,
                                               autograd_cache::Cache* cache,
                                               GraphReport& report);

}  // namespace kiln
