#include "kiln/jit/typed_function.hpp"

#include "version_budget.hpp"

namespace kiln::detail {

using autograd_dispatch::Flat;
using autograd_dispatch::FlatFunction;
using autograd_dispatch::Specialization;
using autograd_dispatch::Structure;

namespace {

// With an identity, the values that a version was compiled for are part of it. Where only a trace
// knows the structure of the result, there is none.
std::string identity_of(const std::string& identity, const Specialization& specialization) {
  if (identity.empty() || !specialization.result_is_static) {
    return {};
  }
  return identity + "\n" + specialization.types + "\n" + specialization.arguments.text;
}

}  // namespace

autograd_dispatch::FunctionCompiler function_compiler(std::shared_ptr<torch::nn::Module> module,
                                                      CompileOptions options) {
  auto budget = std::make_shared<VersionBudget>(options.max_versions);
  return [module = std::move(module),
          options = std::move(options),
          budget = std::move(budget),
          before = Structure()](TensorFunction dense,
                                const Specialization& specialization) mutable -> TensorFunction {
    const Structure& now = specialization.arguments;
    std::string reason;
    if (budget->used() > 0) {
      reason = "non-tensor arguments differ: '" + now.text + "' now, '" + before.text + "' before";
    }
    if (budget->is_spent()) {
      const std::string advice = "pass what changes from call to call as a tensor, ";
      if (options.error_at_max_versions) {
        throw budget->refusal(reason, advice);
      }
      budget->warn_of_eager_calls(reason, advice);
      return {};
    }
    before = now;
    CompileOptions own = options;
    own.identity = identity_of(options.identity, specialization);
    return compile_with_budget(module,
                               std::move(dense),
                               std::move(own),
                               budget,
                               std::move(reason),
                               specialization.integers);
  };
}

bool integers_vary(const CompileOptions& options) {
  // Where sizes are declared, a result may be computed from them.
  return options.automatic_dynamic || options.dynamic || !options.dynamic_dims.empty();
}

void prepare(const FlatFunction& function,
             const FlatFunction::Program& program,
             const Flat& example) {
  const auto version = function.version_for(program, example);
  if (const auto* compiled = version->compiled.target<Function>()) {
    compiled->prepare(autograd_dispatch::with_integers(example));
  }  // Else it is past `max_versions`, and runs as it is.
}

CompileReport report_of(const FlatFunction& function) {
  CompileReport all;
  for (const auto& version : function.versions()) {
    CompileReport one = version->compiled.target<Function>()->report();
    for (VersionReport& detail : one.details) {
      detail.guards.push_back("arguments: " + version->specialization.arguments.text);
    }
    all.versions += one.versions;
    all.traces += one.traces;
    all.compiles += one.compiles;
    all.trace_ms += one.trace_ms;
    all.partition_ms += one.partition_ms;
    all.lookup_ms += one.lookup_ms;
    all.retraces += one.retraces;
    all.retrace_ms += one.retrace_ms;
    all.changes.insert(all.changes.end(), one.changes.begin(), one.changes.end());
    all.graphs.insert(all.graphs.end(), one.graphs.begin(), one.graphs.end());
    all.details.insert(all.details.end(), one.details.begin(), one.details.end());
  }
  return all;
}

}  // namespace kiln::detail
