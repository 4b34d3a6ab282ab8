// Whole functions in the cache: how a call is put together, and the compiled graphs for it.
//
// A function is found by what its trace recorded, or, if it has an identity, by that and what it is
// called with: then nothing is traced.

#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "guards.hpp"
#include "kiln/autograd_cache/cache.hpp"
#include "kiln/autograd_dispatch/dispatch.hpp"
#include "kiln/jit/function.hpp"
#include "kiln/jit/options.hpp"
#include "symbolic_sizes.hpp"

namespace torch::nn {
class Module;
}

namespace kiln {

/// Whether nothing in `options` is code that a cache cannot look into.
[[nodiscard]] bool can_be_cached(const CompileOptions& options);

/// What a function with an identity is known by when it is called like this.
[[nodiscard]] autograd_cache::Key key_of_call(const CompileOptions& options,
                                              const Tensors& inputs,
                                              const ThreadGuard& thread,
                                              const torch::nn::Module* module);

/// The same for calls of all sizes; which of them an entry is for is among its guards.
[[nodiscard]] autograd_cache::Key shape_agnostic_key(const CompileOptions& options,
                                                     const Tensors& inputs,
                                                     const ThreadGuard& thread,
                                                     const torch::nn::Module* module);

/// The guards of a function that was compiled for `sizes` and called with `inputs`.
[[nodiscard]] std::string size_guards(const SymbolicSizes& sizes, const Tensors& inputs);

/// What a function that was traced is known by.
[[nodiscard]] autograd_cache::Key key_of_trace(const CompileOptions& options,
                                               const autograd_dispatch::JointTrace& trace);

/// A function that the cache had.
struct CachedFunction {
  autograd_dispatch::CompiledFunction function;
  Tensors captured;
  std::optional<SymbolicSizes> sizes;      ///< Nothing: it is for the sizes of the call.
  std::shared_ptr<const ir::Graph> graph;  ///< What was traced, if the entry has it.
  std::vector<GraphReport> graphs;
  autograd_cache::Entry entry;
};

/// Finds a function and loads its graphs. Captured tensors are those of `module`, by name, unless
/// `captured` has them from a trace.
[[nodiscard]] std::optional<CachedFunction> find_function(autograd_cache::Cache& cache,
                                                          const autograd_cache::Key& key,
                                                          const CompileOptions& options,
                                                          const Tensors& inputs,
                                                          const torch::nn::Module* module,
                                                          const Tensors* captured = nullptr);

/// Saves a function that was found by its trace under another key, as
/// `FunctionEntryBuilder::add_key` would have.
void save_as(autograd_cache::Cache& cache,
             const autograd_cache::Key& key,
             const std::vector<std::string>& captured,
             autograd_cache::Entry entry,
             const std::string& size_guards);

/// A compiled function on its way into the cache: saved when its plan and all of its graphs are
/// there, which for one that trains is when its backward has first run. Thread-safe.
class FunctionEntryBuilder {
 public:
  explicit FunctionEntryBuilder(std::shared_ptr<autograd_cache::Cache> cache)
      : cache_(std::move(cache)) {}

  /// Saves the function under `key` too; `captured` are the names by which the captured tensors are
  /// found again, `size_guards` the sizes it is for, if the key does not say them.
  void add_key(autograd_cache::Key key,
               std::vector<std::string> captured = {},
               std::string size_guards = {});
  /// What became of the graph `name`: "inference", "forward", "backward".
  void add_graph(const std::string& name, autograd_cache::Entry entry);
  void set_plan(const autograd_dispatch::Plan& plan);
  /// Keeps the trace too, to be compared with the program in another process. Called before the
  /// plan is set.
  void set_graph(const ir::Graph& traced);

 private:
  struct SaveAs {
    autograd_cache::Key key;
    std::vector<std::string> captured;
    std::string size_guards;
  };

  void save_if_complete();

  std::shared_ptr<autograd_cache::Cache> cache_;
  std::mutex mutex_;
  std::vector<SaveAs> keys_;
  std::map<std::string, autograd_cache::Entry> graphs_;
  std::optional<autograd_dispatch::Plan> plan_;
  std::string traced_;  // As JSON; empty: not kept.
};

}  // namespace kiln
