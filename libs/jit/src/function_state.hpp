// A compiled function: its versions, which of them serves a call, and how versions are made.

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
  const std::string reason;    ///< Why its first version is compiled beside others.
  const std::size_t integers;  ///< How many of the last inputs stand for integers.
  const std::shared_ptr<CompileContext> context;
  const CompileOptions& options = context->options;
  const std::shared_ptr<autograd_cache::Cache>& cache = context->cache;

 private:
  // The versions (function_state.cpp).

  [[nodiscard]] std::shared_ptr<const Versions> current_versions() const;
  [[nodiscard]] VersionPtr find(const Tensors& inputs, const ThreadGuard& now) const;
  // The versions that would serve this call if its inputs had other sizes.
  [[nodiscard]] Versions in_other_sizes(const Tensors& inputs, const ThreadGuard& now) const;
  // Whether a version was made for a call with these integers.
  [[nodiscard]] bool has_integers_of(const Version& version, const Tensors& inputs) const;
  // The names of a version's inputs in messages.
  [[nodiscard]] InputNames names_for(const Version& version) const;
  // Why no existing version serves this call; empty if there is none yet.
  [[nodiscard]] std::string reason_for(const Tensors& inputs, const ThreadGuard& now) const;
  // The version for a call, compiled if necessary; null if the call runs eagerly. If compiling it
  // has computed the results of the call, they are in `outputs`.
  VersionPtr obtain(const Tensors& inputs,
                    const ThreadGuard& now,
                    std::optional<Tensors>& outputs,
                    bool may_wait);
  // Whether the first call with its integers runs eagerly. Compiling a version for these integers
  // alone would mean one for every new value, and too few values are known for one that serves all.
  [[nodiscard]] bool waits_for_more_integers(const Tensors& inputs, const ThreadGuard& now) const;
  // A version for a range that ends before this call, or that was not compared with the function at
  // its sizes, if a trace shows that the version is right here, too. Nothing is compiled.
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

  // Whether the program is still the one that was compiled (changed_program.cpp).

  // Runs a call for which a retrace of `version` may be due; nothing if the version does not serve
  // this call.
  std::optional<Tensors> call_with_retrace_check(const VersionPtr& version,
                                                 const Tensors& inputs,
                                                 const ThreadGuard& now);
  // Describes what has changed in the program since it was compiled; nothing if nothing has.
  std::optional<std::string> find_change(const Version& version, const Tensors& inputs);
  JointTrace trace_again(const Tensors& inputs);
  // A warning the first time; later changes are logged at a lower level.
  void warn_of_change(const std::string& change);
  // Makes calls of `version` run eagerly from now on.
  void demote_to_eager(const VersionPtr& version, const std::string& change);
  // Recompiles `version` for a call if the budget allows it; otherwise demotes it to eager.
  VersionPtr recompile(const VersionPtr& version,
                       const Tensors& inputs,
                       const ThreadGuard& now,
                       const std::string& change,
                       std::optional<Tensors>& outputs);

  // Making a version (fill_version.cpp).

  // Returns the results of the trace if the call needs nothing else. If `has_identity` is false,
  // the program has changed, and the function's identity does not apply.
  std::optional<Tensors> fill(Version& version, const Tensors& inputs, bool has_identity = true);
  void fill_from_trace(Version& version,
                       JointTrace traced,
                       const std::optional<autograd_cache::Key>& call_key,
                       const Tensors& inputs);
  static std::nullopt_t run_eagerly(Version& version, const std::string& why);
  JointTrace trace(const Tensors& inputs);
  [[nodiscard]] autograd_dispatch::TraceOptions trace_options() const;
  // Inputs that are not leaves are replaced by clones, so that the function may mutate them.
  void check_hidden_reads(const Tensors& inputs) const;
  // Generalizes the trace of a call to a range of sizes, if that is wanted and possible.
  void let_sizes_vary(Version& version, JointTrace& traced, const Tensors& inputs);
  // Records which integers were symbols in an attempt to let sizes vary.
  void note_attempts(const exporter::DynamicShapes& shapes, const Tensors& inputs, bool failed);
  [[nodiscard]] bool may_vary() const;
  // The integers that the function may be traced with; null: any.
  [[nodiscard]] const IntegerHistory* known_integers() const;
  // If calls of `version` with new sizes must be confirmed by a trace: the confirmed ones, with
  // this call as the first. Otherwise null.
  [[nodiscard]] std::shared_ptr<VisitedSizes> visits_of(const Version& version,
                                                        const Tensors& inputs) const;
  // Whether a trace confirms a version from the cache for this call, if that is necessary.
  bool is_confirmed(const Version& version, const Tensors& inputs);
  std::pair<ir::Graph, ir::Graph> partition(const ir::Graph& joint);
  // A function from the cache. `captured` are the tensors that a trace found, if there was one.
  std::optional<CachedFunction> look_up(const autograd_cache::Key& key,
                                        const Tensors& inputs,
                                        const Tensors* captured = nullptr);
  // The names by which another process finds the captured tensors; nothing if they have none.
  [[nodiscard]] std::optional<std::vector<std::string>> captured_names(
      const Tensors& captured) const;

  mutable std::shared_mutex versions_lock_;
  std::shared_ptr<const Versions> versions_ = std::make_shared<const Versions>();
  // One trace at a time: a second caller most likely needs the same version.
  std::mutex compile_lock_;
  IntegerHistory history_;  // Guarded by it.
  std::atomic<bool> has_warned_of_change_ = false;
  std::atomic<bool> has_warned_of_failed_trace_ = false;
};

}  // namespace kiln
