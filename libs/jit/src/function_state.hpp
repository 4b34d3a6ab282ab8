// A compiled function: its versions, which of them a call gets, and how a further one is made.

#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "compile_context.hpp"
#include "dynamic_function.hpp"
#include "function_entry.hpp"
#include "integer_history.hpp"
#include "kiln/autograd_dispatch/joint.hpp"
#include "kiln/jit/function.hpp"
#include "kiln/jit/stopwatch.hpp"
#include "version.hpp"
#include "version_budget.hpp"

namespace kiln {

struct Function::State {
  using JointTrace = autograd_dispatch::JointTrace;
  using VersionPtr = std::shared_ptr<const Version>;
  using Versions = std::vector<VersionPtr>;

  State(TensorFunction fn,
        std::shared_ptr<torch::nn::Module> of,
        CompileOptions given,
        std::shared_ptr<detail::VersionBudget> counted_by,
        std::string why,
        std::size_t integers_at_end);

  /// See `Function`.
  Tensors call(const Tensors& inputs);
  void prepare(const Tensors& example);

  TensorFunction function;
  std::shared_ptr<torch::nn::Module> module;
  const std::shared_ptr<detail::VersionBudget> budget;
  const std::string reason;    ///< Of the first version.
  const std::size_t integers;  ///< How many of the last inputs stand for integers.
  const std::shared_ptr<CompileContext> context;
  const CompileOptions& options = context->options;
  const std::shared_ptr<autograd_cache::Cache>& cache = context->cache;

 private:
  // Which versions there are (function_state.cpp).

  [[nodiscard]] std::shared_ptr<const Versions> current_versions() const;
  [[nodiscard]] VersionPtr find(const Tensors& inputs, const ThreadGuard& now) const;
  // Versions for calls that differ from this one in the sizes of inputs.
  [[nodiscard]] Versions in_other_sizes(const Tensors& inputs, const ThreadGuard& now) const;
  // Whether a version was made for a call with these integers.
  [[nodiscard]] bool has_integers_of(const Version& version, const Tensors& inputs) const;
  // What messages call the inputs of a version.
  [[nodiscard]] InputNames names_for(const Version& version) const;
  // Why a version for this call is not the first one; empty if it is.
  [[nodiscard]] std::string reason_for(const Tensors& inputs, const ThreadGuard& now) const;
  // The version for a call, compiled if it must be; null if there is none and may be none.
  // `outputs` is set if compiling gave them too.
  VersionPtr obtain(const Tensors& inputs,
                    const ThreadGuard& now,
                    std::optional<Tensors>& outputs,
                    bool may_wait);
  // Whether a call, the first with its integers, runs as it is: a version for these alone would be
  // one for each of them, and too few are known for one that serves all.
  [[nodiscard]] bool waits_for_more_integers(const Tensors& inputs, const ThreadGuard& now) const;
  // A version for a range that this call lies beyond, or in which it was not visited, if a trace
  // says that it holds here too. It is not compiled again.
  VersionPtr widen(const Tensors& inputs, const ThreadGuard& now);
  // Makes a version for calls like this one, if the budget allows it.
  VersionPtr compile(const Tensors& inputs,
                     const ThreadGuard& now,
                     std::optional<Tensors>& outputs);
  VersionPtr make_version(const Tensors& inputs,
                          const ThreadGuard& now,
                          std::optional<Tensors>& outputs);
  VersionPtr replace(const VersionPtr& old, Version made);
  void note_traces(const FunctionSampler& sampler, const Stopwatch& watch) const;

  // Whether they are still what the program does (changed_program.cpp).

  // A call for which a trace of `version` may be due; nothing if it is not the one for this call.
  std::optional<Tensors> call_with_retrace_check(const VersionPtr& version,
                                                 const Tensors& inputs,
                                                 const ThreadGuard& now);
  // What has changed in the program since it was compiled, in words; nothing if nothing has.
  std::optional<std::string> find_change(const Version& version, const Tensors& inputs);
  JointTrace trace_again(const Tensors& inputs);
  // The first time, and later only tells who wants to know everything.
  void warn_of_change(const std::string& change);
  // Has calls of `version` run eagerly from now on.
  void demote_to_eager(const VersionPtr& version, const std::string& change);
  // Compiles `version` anew for a call, if the budget allows it; else gives it up.
  VersionPtr recompile(const VersionPtr& version,
                       const Tensors& inputs,
                       const ThreadGuard& now,
                       const std::string& change,
                       std::optional<Tensors>& outputs);

  // How one is made (fill_version.cpp).

  // What a trace computed is returned where that is all that a call does. A version whose program
  // has changed is not one that has the function's identity.
  std::optional<Tensors> fill(Version& version, const Tensors& inputs, bool has_identity = true);
  void fill_from_trace(Version& version,
                       JointTrace traced,
                       const std::optional<autograd_cache::Key>& call_key,
                       const Tensors& inputs);
  static std::nullopt_t run_eagerly(Version& version, const std::string& why);
  JointTrace trace(const Tensors& inputs);
  [[nodiscard]] autograd_dispatch::TraceOptions trace_options() const;
  // On inputs of which those with a history have one again, so that the function may write them.
  void check_hidden_reads(const Tensors& inputs) const;
  // Makes the trace of a call one for a range of sizes, where that is wanted and can be had.
  void let_sizes_vary(Version& version, JointTrace& traced, const Tensors& inputs);
  [[nodiscard]] bool may_vary() const;
  // What a function may be traced with; null: any integers.
  [[nodiscard]] const IntegerHistory* known_integers() const;
  // The calls of a version for a range that a trace confirms, of which this is one; null if it is
  // for all.
  [[nodiscard]] std::shared_ptr<VisitedSizes> visits_of(const Version& version,
                                                        const Tensors& inputs) const;
  // Whether a version from the cache, with its graph, is what the function does for this call.
  bool is_confirmed(const Version& version, const Tensors& inputs);
  std::pair<ir::Graph, ir::Graph> partition(const ir::Graph& joint);
  // From the cache, if it is there. `captured` is what a trace found.
  std::optional<CachedFunction> look_up(const autograd_cache::Key& key,
                                        const Tensors& inputs,
                                        const Tensors* captured = nullptr);
  // How the tensors that a function uses and that are not arguments are found in another process.
  [[nodiscard]] std::optional<std::vector<std::string>> captured_names(
      const Tensors& captured) const;

  mutable std::shared_mutex versions_lock_;
  std::shared_ptr<const Versions> versions_ = std::make_shared<const Versions>();
  // One trace at a time: a second caller most likely wants the same version.
  std::mutex compile_lock_;
  IntegerHistory history_;  // Guarded by it.
  std::atomic<bool> has_warned_of_change_ = false;
  std::atomic<bool> has_warned_of_failed_trace_ = false;
};

}  // namespace kiln
