// From a graph to a model library that is loaded: the cache, the code generator and the runner, put
// together.

#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kiln/autograd_cache/cache.hpp"
#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/codegen/compile.hpp"
#include "kiln/ir/graph.hpp"
#include "kiln/jit/options.hpp"

namespace kiln {

/// The code generator's options that follow from `options`.
codegen::Options codegen_options(const CompileOptions& options, autograd_cache::Cache* cache);

/// The same for the graphs of a function, whose guards have checked the inputs.
codegen::Options graph_options(const CompileOptions& options,
                               autograd_cache::Cache* cache = nullptr);

/// A model library on disk.
struct ModelLibrary {
  std::filesystem::path path;  ///< Of the library.
  /// JSON beside it, under its name, for operators that only the host's proxy executor can call;
  /// empty if there are none.
  std::filesystem::path extern_nodes;
  std::string source;     ///< What calls the kernels, for people to read.
  std::string plan = {};  ///< What the ranges of a profile stand for; empty if there are none.
  /// Text of the graph that computes what stands behind the constants; empty if nothing does.
  std::string folding = {};
  /// As it is in the cache, if it may be there.
  std::optional<autograd_cache::Entry> entry = {};
};

/// Finds what `graph` compiles to in `cache` (which may be null), or compiles it. What is not in
/// the cache lies in `scratch`. `report` is filled in.
ModelLibrary obtain_library(const ir::Graph& graph,
                            const codegen::Options& generator,
                            const CompileOptions& options,
                            autograd_cache::Cache* cache,
                            const std::filesystem::path& scratch,
                            GraphReport& report);

/// The library of an entry that was found. Its JSON, if it has one, is put into `scratch`, with a
/// link to the library beside it.
ModelLibrary library_of(const autograd_cache::Entry& entry, const std::filesystem::path& scratch);

/// Reads the counts that travel with an entry.
void read_report(const autograd_cache::Entry& entry, GraphReport& report);

/// A compiled graph of a function.
struct LoadedGraph {
  autograd_dispatch::CompiledGraph run;  ///< Runs it.
  /// What `load_graph` makes it of again, if it may be cached.
  std::optional<autograd_cache::Entry> entry = {};
};

/// Compiles `graph` (or finds it in `cache`, which may be null) and loads it. `report` is filled
/// in.
LoadedGraph compile_graph(const ir::Graph& graph,
                          const CompileOptions& options,
                          autograd_cache::Cache* cache,
                          GraphReport& report);

/// Loads a graph that `compile_graph` made. Throws `Error` or `std::out_of_range` if the entry is
/// none of a graph, or its files are gone.
autograd_dispatch::CompiledGraph load_graph(const autograd_cache::Entry& entry,
                                            const CompileOptions& options,
                                            GraphReport& report);

}  // namespace kiln
